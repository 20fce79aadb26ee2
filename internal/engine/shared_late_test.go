package engine

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/fastlimit/fastlimit/limit"
)

// TestConformingClientIsNotDenied has a client at exactly its rate, from a
// full burst on, and answers that come long after they were due: dated from
// any later than they were asked for, they would convict it (P1).
func TestConformingClientIsNotDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(21, 22))
		var mu sync.Mutex
		s := newSlowStore(t)
		s.delay = func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(rng.IntN(5000)) * time.Microsecond
		}
		s.back = func() time.Duration { return 10 * s.delay() }
		r := sharedLimiter(t, s, strictRule("a", 1000, time.Second, 5)).rules[0]
		key := r.BytesKey([]byte("x"))
		var wg sync.WaitGroup
		for i := range 3000 {
			if i >= 5 {
				time.Sleep(time.Millisecond)
			}
			wg.Go(func() {
				if d := r.Take(t.Context(), key, 1); !d.Allowed {
					t.Errorf("request %d of a client at its rate: %+v", i, d)
				}
			})
		}
		wg.Wait()
	})
}

// TestOverdueAnswerIsNotWaitedFor: the first request finds out that the store
// is silent; those after it do not pay for that again.
func TestOverdueAnswerIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowStore(t)
		s.back = func() time.Duration { return time.Minute }
		r := sharedLimiter(t, s, strictRule("a", 1, time.Second, 100)).rules[0]
		key := r.BytesKey([]byte("x"))
		for i := range 10 {
			start := time.Now()
			if d := r.Take(t.Context(), key, 1); !d.Degraded {
				t.Fatalf("got %+v from a silent store", d)
			}
			if waited := time.Since(start); i > 0 && waited > 0 {
				t.Errorf("request %d waited %v for an answer that is overdue", i, waited)
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
	})
}

// An exact check of a shared store allocates the bucket's name and no more, but for what
// the store in memory computes with.
func TestSharedAllocations(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates: counted without it only")
		return
	}
	store := memstore.New(memstore.Config{})
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	cfg := strictRule("a", 1, time.Hour, 1_000_000)
	lim, err := New(Config{Rules: []limit.RuleConfig{cfg}, Store: store, StoreTimeout: time.Minute, Memory: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	r, ctx := lim.rules[0], t.Context()
	key := r.AddrKey(netip.MustParseAddr("192.0.2.1"))
	op := bucket.Op{Shape: r.buckets.Shape, Cost: r.buckets.Shape.Unit(), Count: 1}
	own := testing.AllocsPerRun(200, func() { step.Apply(step.State{}, 1, step.NewRequest(&op, 1)) })
	if n := testing.AllocsPerRun(200, func() {
		if d := r.Take(ctx, key, 1); d.Stage != limit.StageExact || !d.Allowed {
			t.Fatalf("%+v: want admission by the store", d)
		}
	}); n > 1+own {
		t.Errorf("%v allocations, want 1 beside %v of the store's", n, own)
	}
}

// Requests of different costs, one after another, are charged what they cost.
func TestSharedCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowStore(t)
		r := sharedLimiter(t, s, strictRule("a", 1, time.Hour, 100)).rules[0]
		key := r.BytesKey([]byte("x"))
		left := int64(100)
		for _, n := range []uint64{1, 20, 3, 1, 50} {
			left -= int64(n)
			if d := r.Take(t.Context(), key, n); !d.Allowed || d.Remaining != left {
				t.Errorf("take of %d: %+v, want %d remaining", n, d, left)
			}
		}
		if d := r.Take(t.Context(), key, uint64(left)+1); d.Allowed {
			t.Errorf("more than remains: %+v", d)
		}
	})
}

// TestStalledFallbackConvictsNobody has the process stand still for 200 ms
// between reading the clock for a request and deciding on it without the store.
// The next one conforms, by its reading and that of the first: were the first
// charged when the process went on, the second would be denied (P1).
func TestStalledFallbackConvictsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := sharedLimiter(t, new(refusing), strictRule("a", 10, time.Second, 1))
		r := lim.rules[0]
		read := time.Now()
		time.Sleep(200 * time.Millisecond)
		if d, _ := lim.TakeAllAt(t.Context(), []Charge{charge(r, 1)}, read); !d.Allowed || !d.Degraded {
			t.Fatalf("the stalled request: %+v", d)
		}
		time.Sleep(10 * time.Millisecond)
		if d, _ := lim.TakeAll(t.Context(), []Charge{charge(r, 1)}); !d.Allowed {
			t.Errorf("210 ms after the reading of the first, at one in 100 ms: %+v", d)
		}
	})
}
