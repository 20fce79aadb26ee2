package engine

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/internal/exact"
	"github.com/fastlimit/fastlimit/limit"
)

// millisecond is a store that answers after 1 ms; J is 5 ms.
func millisecond(t *testing.T) *slowStore {
	s := newSlowStore(t)
	s.delay = func() time.Duration { return time.Millisecond }
	return s
}

// TestHangUpAdmitsNothing has a client hang up after 0.1 ms, again and again, at
// one node and at five: it is denied by every policy, and its bucket is empty
// in the end. So is a lone node's table; one of several may have seen what
// others had not given back yet.
func TestHangUpAdmitsNothing(t *testing.T) {
	for _, policy := range []limit.OnFailure{limit.FailLocal, limit.FailOpen, limit.FailClosed} {
		t.Run(policy.String(), func(t *testing.T) {
			for _, nodes := range []int{1, 5} {
				synctest.Test(t, func(t *testing.T) { hangUpAdmitsNothing(t, policy, nodes) })
			}
		})
	}
}

func hangUpAdmitsNothing(t *testing.T, policy limit.OnFailure, nodes int) {
	var rules []*Rule
	first := newSlowStore(t)
	for range nodes {
		s := first.sibling()
		s.delay = func() time.Duration { return time.Millisecond }
		cfg := strictRule("a", 1, time.Hour, 20)
		cfg.OnFailure = policy
		rules = append(rules, sharedLimiter(t, s, cfg).rules[0])
	}
	var wg sync.WaitGroup
	for range 50 {
		for _, r := range rules {
			for i := range uint64(20) {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Microsecond)
					defer cancel()
					var d limit.Decision
					n := uint64(0)
					if key := r.BytesKey([]byte("x")); i%4 == 3 {
						d, n = r.TakeUpTo(ctx, key, i%3+1)
					} else {
						d = r.Take(ctx, key, 1)
					}
					if want := exact.Abandoned(); d != want || n != 0 {
						t.Errorf("hung up: %+v with %d units, want %+v", d, n, want)
					}
				})
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	wg.Wait()
	time.Sleep(time.Second)
	if level := first.State(`a:"x"`).Level; level != 0 {
		t.Errorf("%d nodes: the store holds %d ticks in the end", nodes, level)
	}
	for i, r := range rules {
		key := r.BytesKey([]byte("x"))
		if d := r.Take(t.Context(), key, 20); nodes == 1 && !d.Allowed {
			t.Errorf("the whole burst after all that: %+v", d)
		}
		if n := r.shared.InFlight(); n != 0 {
			t.Errorf("node %d: %d flights left", i, n)
		}
	}
}

// TestHangUpCostsTwoOperations counts what the store is asked for a client that
// only hangs up: a take and what gives it back, one after the other, whatever
// the number of requests; so the round trip bounds it.
func TestHangUpCostsTwoOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := millisecond(t)
		r := sharedLimiter(t, s, strictRule("a", 1, time.Hour, 20)).rules[0]
		key := r.BytesKey([]byte("x"))
		var wg sync.WaitGroup
		const ms = 200
		for range ms * 10 {
			for range 5 {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 50*time.Microsecond)
					defer cancel()
					r.Take(ctx, key, 1)
				})
			}
			time.Sleep(100 * time.Microsecond)
		}
		wg.Wait()
		time.Sleep(time.Second)
		takes, amends := s.takes.Load(), s.amends.Load()
		if s.doubled > 0 {
			t.Errorf("%d operations overlapped", s.doubled)
		}
		if takes+amends > ms+4 || amends > takes {
			t.Errorf("%d takes and %d refunds in %d ms of round trips of 1 ms", takes, amends, ms)
		}

		before := takes + amends
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() { r.Take(ctx, key, 1) })
		synctest.Wait()
		cancel()
		wg.Wait()
		time.Sleep(time.Second)
		if n := s.takes.Load() + s.amends.Load() - before; n != 2 {
			t.Errorf("%d operations for one request that hung up, want 2", n)
		}
	})
}

// TestNobodyAsksForThoseWhoLeft: who hangs up while the operation of another
// is on its way is not asked for at all, nor is who had hung up before.
func TestNobodyAsksForThoseWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := millisecond(t)
		r := sharedLimiter(t, s, strictRule("a", 1, time.Hour, 20)).rules[0]
		key := r.BytesKey([]byte("x"))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if d := r.Take(t.Context(), key, 1); !d.Allowed {
				t.Errorf("who stays: %+v", d)
			}
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() { r.Take(ctx, key, 1) })
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		if d := r.Take(ctx, r.BytesKey([]byte("y")), 1); d != exact.Abandoned() {
			t.Errorf("who had hung up before: %+v", d)
		}
		time.Sleep(time.Second)
		if takes, asked, amends := s.takes.Load(), s.asked.Load(), s.amends.Load(); takes != 1 || asked != 1 || amends != 0 {
			t.Errorf("%d takes for %d requests and %d refunds, want one take for the one who stayed", takes, asked, amends)
		}
	})
}

// TestHangUpGivesOtherRulesBack: what the first rule took is given back when the
// client hangs up while the second is asked.
func TestHangUpGivesOtherRulesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := millisecond(t)
		lim := sharedLimiter(t, s, strictRule("a", 1, time.Hour, 5), strictRule("b", 1, time.Hour, 5))
		charges := func() []Charge { return []Charge{charge(lim.rules[0], 5), charge(lim.rules[1], 5)} }
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Microsecond)
		defer cancel()
		if d, by := lim.TakeAll(ctx, charges()); d != exact.Abandoned() || by != 1 {
			t.Errorf("hung up at the second rule: %+v by %d", d, by)
		}
		time.Sleep(time.Second)
		if d, _ := lim.TakeAll(t.Context(), charges()); !d.Allowed {
			t.Errorf("both bursts afterwards: %+v", d)
		}
	})
}

// TestUsedGrantIsKept has a request time out, be admitted by its policy, and be
// granted afterwards: the grant is what it used.
func TestUsedGrantIsKept(t *testing.T) {
	for _, policy := range []limit.OnFailure{limit.FailLocal, limit.FailOpen} {
		synctest.Test(t, func(t *testing.T) {
			s := newSlowStore(t)
			s.back = func() time.Duration { return 50 * time.Millisecond }
			cfg := strictRule("a", 1, time.Hour, 10)
			cfg.OnFailure = policy
			r := sharedLimiter(t, s, cfg).rules[0]
			if d := r.Take(t.Context(), r.BytesKey([]byte("x")), 4); !d.Allowed || !d.Degraded {
				t.Fatalf("%v: %+v, want an admission by the policy", policy, d)
			}
			time.Sleep(time.Second)
			if got := s.State(`a:"x"`).Level; got != 4*r.buckets.Shape.Unit() || s.amends.Load() != 0 {
				t.Errorf("%v: the store holds %d ticks after %d refunds", policy, got, s.amends.Load())
			}
		})
	}
}

// TestOldChargesAreNotGivenBackInFull: a charge that has leaked before it is
// found to be unused would be used twice.
func TestOldChargesAreNotGivenBackInFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowStore(t)
		s.back = func() time.Duration { return 2 * time.Second }
		cfg := strictRule("a", 1, time.Second, 10)
		cfg.OnFailure = limit.FailClosed
		a := sharedLimiter(t, s, cfg).rules[0]
		if d := a.Take(t.Context(), a.BytesKey([]byte("x")), 2); d.Allowed {
			t.Fatal("a silent store admitted")
		}
		// Another node finds the bucket drained just before that answer comes.
		time.Sleep(1990 * time.Millisecond)
		b := sharedLimiter(t, s.sibling(), cfg).rules[0]
		if d := b.Take(t.Context(), b.BytesKey([]byte("x")), 10); !d.Allowed {
			t.Fatalf("a drained bucket: %+v", d)
		}
		time.Sleep(10 * time.Millisecond)
		if left := s.State(`a:"x"`).Level; left+2*5_000 < 10*b.buckets.Shape.Unit() {
			t.Errorf("the store holds %d ticks of 10 units taken: a charge that had leaked was given back", left)
		}
	})
}

// What a client was admitted stays in the table when it hangs up, no more and no
// less: else an outage would admit it again.
func TestHangUpLeavesTheTableAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := millisecond(t)
		r := sharedLimiter(t, s, strictRule("a", 1, time.Hour, 5)).rules[0]
		key := r.BytesKey([]byte("x"))
		r.Take(t.Context(), key, 3)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Microsecond)
		defer cancel()
		r.Take(ctx, key, 2)
		time.Sleep(100 * time.Millisecond)
		if d := r.Peek(key, 1); d.Remaining != 2 {
			t.Errorf("%+v: want 3 of 5 taken", d)
		}
	})
}
