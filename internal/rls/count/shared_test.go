package count

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
)

// numbers is a store whose answers come when a test says so.
type numbers struct {
	mu    sync.Mutex
	count map[string]uint64
	ops   int
	delay func() time.Duration // before an operation is carried out, and again before its answer
	fails func() error         // nil: it is carried out
	away  bool
}

func (*numbers) Runs(bucket.Algorithm) bool  { return true }
func (*numbers) Close(context.Context) error { return nil }

func (s *numbers) Submit(op *bucket.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return bucket.ErrAway
	}
	s.ops++
	go func() {
		time.Sleep(s.delay())
		s.mu.Lock()
		s.count[op.Key] += op.Cost
		r := bucket.Reply{Granted: 1, Level: s.count[op.Key]}
		s.mu.Unlock()
		time.Sleep(s.delay())
		var err error
		if s.fails != nil {
			err = s.fails()
		}
		op.Done(op, r, err)
	}()
	return nil
}

// at returns the number in the store, and by how many operations all of them came about.
func (s *numbers) at() (count uint64, ops int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count["p:d_k_v_60"], s.ops
}

func newNumbers() *numbers {
	return &numbers{count: map[string]uint64{}, delay: func() time.Duration { return time.Millisecond }}
}

const timeout = 5 * time.Millisecond

func sharedOn(t *testing.T, store bucket.Store) *Shared {
	t.Helper()
	return NewShared(countersFor(t, 1024), store, "p:", timeout)
}

// once is one hit of key k, whose count may be what it is.
func once(t *testing.T, s *Shared, n, limit uint64) uint64 {
	t.Helper()
	h := []Hit{{Key: []byte("k"), Name: []byte("d_k_v_"), Unit: descriptor.Minute, Hits: n, Limit: limit}}
	if err := s.Add(61*time.Second, h); err != nil {
		t.Fatal(err)
	}
	return h[0].Count
}

// TestSharedCounts with others, by upstream's name of the window.
func TestSharedCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newNumbers()
		store.count["p:d_k_v_60"] = 40
		a, b := sharedOn(t, store), sharedOn(t, store)
		for i, s := range []*Shared{a, b, a, a, b} {
			if got := once(t, s, 1, 99); got != uint64(41+i) {
				t.Errorf("hit %d: %d", i, got)
			}
		}
		h := []Hit{{Key: []byte("k"), Name: []byte("d_k_v_"), Unit: descriptor.Minute, Hits: 7, Limit: 99}}
		if err := a.Ask(61*time.Second, h); err != nil || h[0].Count != 52 {
			t.Errorf("asked: %d, %v", h[0].Count, err)
		}
		if n, _ := store.at(); n != 45 {
			t.Errorf("asking has counted: %d", n)
		}
	})
}

// TestSharedIsExact: whatever the order of answers, hits of all processes get each count
// once.
func TestSharedIsExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newNumbers()
		store.delay = func() time.Duration { return time.Duration(rand.Int64N(int64(timeout / 3))) }
		var mu sync.Mutex
		var all []uint64
		var group sync.WaitGroup
		for range 3 {
			s := sharedOn(t, store)
			s.timeout = time.Hour // all answers come in time
			for range 20 {
				group.Go(func() {
					for range 20 {
						got := once(t, s, 1, 1<<40)
						mu.Lock()
						all = append(all, got)
						mu.Unlock()
					}
				})
			}
		}
		group.Wait()
		slices.Sort(all)
		for i, n := range all {
			if n != uint64(i+1) {
				t.Fatalf("count %d is %d", i+1, n)
			}
		}
		if _, ops := store.at(); ops > len(all)/4 {
			t.Errorf("%d operations for %d hits", ops, len(all))
		}
	})
}

// TestSharedIsLate: what this process knows decides in time, and it learns later.
func TestSharedIsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newNumbers()
		store.count["p:d_k_v_60"] = 10
		store.delay = func() time.Duration { return time.Second }
		s := sharedOn(t, store)
		start := time.Now()
		if got := once(t, s, 1, 99); got != 1 || time.Since(start) != timeout {
			t.Errorf("%d after %v", got, time.Since(start))
		}
		if got := once(t, s, 2, 99); got != 3 {
			t.Errorf("%d, want what this process counts", got)
		}
		time.Sleep(time.Minute)
		if got := once(t, s, 0, 99); got != 13 {
			t.Errorf("%d, want all", got)
		}
		time.Sleep(time.Minute)
		if n, _ := store.at(); n != 13 {
			t.Errorf("the store has %d", n)
		}
	})
}

// TestSharedIsAway: without the store nobody waits.
func TestSharedIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newNumbers()
		store.away = true
		s := sharedOn(t, store)
		start := time.Now()
		for i := range uint64(3) {
			if got := once(t, s, 1, 99); got != i+1 {
				t.Errorf("%d, want %d", got, i+1)
			}
		}
		store.away = false
		store.fails = func() error { return bucket.ErrAway }
		if got := once(t, s, 1, 99); got != 4 || time.Since(start) > timeout || len(s.flights) > 0 {
			t.Errorf("%d after %v, %d in flight", got, time.Since(start), len(s.flights))
		}
	})
}

// TestSharedOverLimit: who is over the limit, as this process knows, waits for nobody and is
// counted all the same, by few operations.
func TestSharedOverLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newNumbers()
		s := sharedOn(t, store)
		once(t, s, 5, 5)
		start := time.Now()
		for range 100 {
			if got := once(t, s, 1, 5); got <= 5 {
				t.Errorf("%d is not over", got)
			}
		}
		if time.Since(start) > 0 {
			t.Errorf("they waited %v", time.Since(start))
		}
		time.Sleep(time.Second)
		if n, ops := store.at(); n != 105 || ops > 4 {
			t.Errorf("%d by %d operations", n, ops)
		}
	})
}

// TestSharedWaitsOnce: asking before counting takes no longer than counting alone.
func TestSharedWaitsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, delay := range []time.Duration{timeout / 4, time.Second} {
			store := newNumbers()
			store.delay = func() time.Duration { return delay }
			s := sharedOn(t, store)
			h := []Hit{{Key: []byte("k"), Name: []byte("d_k_v_"), Unit: descriptor.Minute, Hits: 2, Limit: 99}}
			start := time.Now()
			if err := s.Ask(61*time.Second, h); err != nil || h[0].Count != 2 {
				t.Errorf("asked: %d, %v", h[0].Count, err)
			}
			if err := s.Add(61*time.Second, h); err != nil || h[0].Count != 2 || time.Since(start) != timeout {
				t.Errorf("%d after %v, %v", h[0].Count, time.Since(start), err)
			}
			time.Sleep(time.Minute)
			if n, _ := store.at(); n != 2 {
				t.Errorf("the store has %d", n)
			}
		}
	})
}
