package engine

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
)

// TestStoreLearnsAfterOutage: what a node admitted while the store was away it
// brings along: the store takes the maximum, so another node finds what is left.
func TestStoreLearnsAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowStore(t)
		down := s.outage()
		cfg := strictRule("a", 1, time.Hour, 10)
		a, b := sharedLimiter(t, s, cfg).rules[0], sharedLimiter(t, s, cfg).rules[0]
		take := func(r *Rule, n uint64) limit.Decision { return r.Take(t.Context(), r.BytesKey([]byte("x")), n) }
		take(a, 3)
		down.Store(true)
		if d := take(a, 5); !d.Allowed || !d.Degraded {
			t.Fatalf("while it is away: %+v", d)
		}
		down.Store(false)
		if d := take(a, 1); !d.Allowed || d.Remaining != 1 {
			t.Errorf("the same node: %+v, want 9 of 10 taken", d)
		}
		if d := take(b, 2); d.Allowed {
			t.Errorf("another node: %+v, want 9 of 10 taken", d)
		}
		if d := take(b, 1); !d.Allowed {
			t.Errorf("another node: %+v, want the last one", d)
		}
		// Nothing is doubted any more once all that was known has leaked.
		time.Sleep(a.buckets.Shape.MaxDrain())
		floors := s.floors.Load()
		take(a, 3)
		if take(a, 1); s.floors.Load() != floors || floors == 0 {
			t.Errorf("%d takes with a floor, and %d long after the outage", floors, s.floors.Load()-floors)
		}
	})
}

// TestOldAnswerDoesNotUndoRefund: an answer that was on its way when units were
// given back does not bring them back to the table, and neither does a floor.
func TestOldAnswerDoesNotUndoRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowStore(t)
		r := sharedLimiter(t, s, strictRule("a", 1, time.Hour, 5)).rules[0]
		key := r.BytesKey([]byte("x"))
		r.Take(t.Context(), key, 4)
		synctest.Wait()
		s.back = func() time.Duration { return 2 * time.Millisecond }
		var wg sync.WaitGroup
		wg.Go(func() { r.Take(t.Context(), key, 1) })
		time.Sleep(time.Millisecond)
		r.Refund(key, 4)
		wg.Wait()
		time.Sleep(time.Second)
		if d := r.Take(t.Context(), key, 4); !d.Allowed {
			t.Errorf("after a refund of 4 of 5: %+v", d)
		}
	})
}

// TestDeniedElsewhereIsGivenBackForGood: what another rule's denial gives back
// stays given back, though a second node saw the level in between and is in
// doubt about the store.
func TestDeniedElsewhereIsGivenBackForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowStore(t)
		cfg := []limit.RuleConfig{strictRule("a", 1, time.Minute, 20), strictRule("b", 1, time.Hour, 1)}
		var nodes [3]*Limiter
		for i := range nodes {
			own := s.sibling()
			own.delay = func() time.Duration { return 2 * time.Millisecond }
			nodes[i] = sharedLimiter(t, own, cfg...)
		}
		key := func(n, rule int, name string) Key { return nodes[n].rules[rule].BytesKey([]byte(name)) }
		take := func(n int, units uint64) limit.Decision {
			return nodes[n].rules[0].Take(t.Context(), key(n, 0, "x"), units)
		}
		nodes[2].rules[1].Take(t.Context(), key(2, 1, "y"), 1) // "b" is exhausted
		var wg sync.WaitGroup
		wg.Go(func() {
			charges := []Charge{{nodes[0].rules[0], key(0, 0, "x"), 15}, {nodes[0].rules[1], key(0, 1, "y"), 1}}
			if d, by := nodes[0].TakeAll(t.Context(), charges); d.Allowed || by != 1 {
				t.Errorf("the request that b denies: %+v by %d", d, by)
			}
		})
		time.Sleep(time.Millisecond)
		take(1, 1) // learns of 15 and its own
		wg.Wait()
		nodes[1].rules[0].shared.Distrust(nodes[1].Now())
		time.Sleep(time.Second)
		take(1, 1)
		if d := take(2, 18); !d.Allowed {
			t.Errorf("18 of 20, with 2 taken: %+v", d)
		}
	})
}

// TestResetIsNotUndone: neither an answer that was on its way nor the floor of
// another node in doubt fills a bucket again that was emptied.
func TestResetIsNotUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowStore(t)
		cfg := strictRule("a", 5, 15*time.Minute, 5)
		a, b := sharedLimiter(t, s, cfg).rules[0], sharedLimiter(t, s.sibling(), cfg).rules[0]
		take := func(r *Rule, n uint64) limit.Decision { return r.Take(t.Context(), r.BytesKey([]byte("x")), n) }
		take(a, 4)
		take(b, 1) // knows of 5
		synctest.Wait()
		s.back = func() time.Duration { return 2 * time.Millisecond }
		var wg sync.WaitGroup
		wg.Go(func() { take(a, 1) })
		time.Sleep(time.Millisecond)
		a.Reset(a.BytesKey([]byte("x")))
		wg.Wait()
		time.Sleep(time.Second)
		if d := take(b, 1); d.Allowed || d.Stage != limit.StageTable {
			t.Errorf("the other node goes by what it remembers: %+v", d)
		}
		b.shared.Distrust(b.limiter.Now())
		time.Sleep(3 * time.Minute) // a unit leaks in its table
		if d := take(b, 1); !d.Allowed {
			t.Errorf("the other node after a unit has leaked: %+v", d)
		}
		if d := take(a, 4); !d.Allowed {
			t.Errorf("4 of 5 after the reset, with 1 taken: %+v", d)
		}
	})
}

// TestLateFloorRaisesNothing is a stall of the store while a take with a floor
// is on its way: the client, whose bucket has drained, is not denied by what it
// was.
func TestLateFloorRaisesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := millisecond(t)
		r := sharedLimiter(t, s, strictRule("a", 100, time.Second, 20)).rules[0]
		key := r.BytesKey([]byte("x"))
		r.shared.Distrust(r.limiter.Now() + time.Hour)
		for range 19 {
			r.Take(t.Context(), key, 1)
		}
		synctest.Wait()
		s.delay = func() time.Duration { return 200 * time.Millisecond }
		r.Take(t.Context(), key, 1)
		synctest.Wait()
		s.delay = func() time.Duration { return time.Millisecond }
		time.Sleep(201 * time.Millisecond)
		for i := range 18 {
			if d := r.Take(t.Context(), key, 1); !d.Allowed {
				t.Fatalf("request %d of a client that keeps its limit: %+v", i, d)
			}
		}
	})
}

// A Refund and a Reset while an operation is on its way are one operation after
// it: the reset takes care of the refund, which would undo what is charged next.
func TestResetTakesCareOfRefunds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := millisecond(t)
		r := sharedLimiter(t, s, strictRule("a", 1, time.Hour, 5)).rules[0]
		key := r.BytesKey([]byte("x"))
		r.Take(t.Context(), key, 3)
		var wg sync.WaitGroup
		wg.Go(func() { r.Take(t.Context(), key, 1) })
		synctest.Wait()
		r.Refund(key, 2)
		r.Refund(key, 1)
		r.Reset(key)
		wg.Wait()
		time.Sleep(time.Second)
		if n := s.amends.Load(); n != 1 || s.doubled > 0 {
			t.Errorf("%d operations after the takes, %d overlapped; want the reset alone", n, s.doubled)
		}
	})
}

// patienceSpy notes what takes carry.
type patienceSpy struct {
	bucket.Store
	patience []time.Duration
}

func (s *patienceSpy) Submit(op *bucket.Op) error {
	s.patience = append(s.patience, op.Patience)
	return s.Store.Submit(op)
}

// A take may be carried out as long as everybody waits for whom it asks: after
// that the policy has decided for one of them, who would be charged too late.
func TestPatienceIsThatOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowStore(t)
		slow.back = func() time.Duration { return 3 * time.Millisecond }
		s := &patienceSpy{Store: slow}
		r := sharedLimiter(t, s, strictRule("a", 1, time.Hour, 10)).rules[0]
		var wg sync.WaitGroup
		for range 3 { // at 0, 1 and 2 ms
			wg.Go(func() { r.Take(t.Context(), r.BytesKey([]byte("x")), 1) })
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		want := []time.Duration{limit.DefaultStoreTimeout, limit.DefaultStoreTimeout - 2*time.Millisecond}
		if !slices.Equal(s.patience, want) {
			t.Errorf("takes with a patience of %v, want %v", s.patience, want)
		}
	})
}
