package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/testkit/judge"
	"github.com/fastlimit/fastlimit/limit"
)

// upTo makes client c take up to n units, and checks that no unit that conforms
// was withheld (P1) and what was taken (P2).
func (w *world) upTo(c int, n uint64, now time.Duration, rule int) error {
	r := w.lim.rules[rule]
	o := w.truth[c][rule]
	o.At(w.line(now))
	setTime(w.lim, now)
	d, taken := r.TakeUpTo(context.Background(), rawKey(r, w.digests[c][rule]), n)
	if r.config.Mode == limit.Shadow {
		return nil // no oracle counts what it admits
	}
	if done, err := w.judgeBans(c, 1, w.latest, []int{rule}, d, 0); done || err != nil {
		return err
	}
	if err := checkFilled(o, r, d, n, taken); err != nil {
		return fmt.Errorf("client %d, rule %s, up to %d at %v: %w", c, r.config.Name, n, now, err)
	}
	return w.admitted(c, taken, now, rule)
}

// checkFilled judges the outcome of a TakeUpTo by the oracle, before it is charged
// there.
func checkFilled(o *judge.Client, r *Rule, d limit.Decision, n, taken uint64) error {
	switch {
	case taken > n || taken > r.config.Burst || d.Allowed != (taken > 0):
		return fmt.Errorf("%d taken: %+v", taken, d)
	case taken < n && !o.Justified(taken+1, r.config.Burst):
		return fmt.Errorf("P1: %d taken at level %v of %d", taken, float64(o.Level)/float64(o.Per), r.config.Burst)
	case taken > 0 && d.RetryAfter != 0 || n > 0 && taken == 0 && d.RetryAfter <= 0:
		return fmt.Errorf("%d taken: retry after %v", taken, d.RetryAfter)
	}
	return nil
}

// TestTakeUpToSandwich mixes takes of all or nothing with takes of what fits, in
// all the worlds of the sandwich.
func TestTakeUpToSandwich(t *testing.T) {
	t.Parallel()
	for i, c := range sandwichCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(i), 77))
			w := newWorld(t, rng, c.clients, c.geo, c.rules...)
			auditAll(w.lim)
			defer silent(t, w.lim)
			now := time.Duration(0)
			for range 40 {
				p := newPattern(rng, w, len(w.digests))
				for range 1500 {
					now += p.gap(rng, w)
					client, n, rule := p.client(rng), p.cost(rng), p.rules[0]
					do := w.single
					if rng.IntN(2) == 0 {
						do = w.upTo
						n *= 1 + rng.Uint64N(4)
					}
					if err := do(client, n, now, rule); err != nil {
						t.Fatalf("%s: %v", p.name, err)
					}
				}
				advanceAt(w.lim, now)
			}
		})
	}
}

// On one node with exact buckets it is the arithmetic of a bucket that is filled to
// the brim: the same units, whatever order they come in.
func TestTakeUpToFillsToTheBrim(t *testing.T) {
	t.Parallel()
	var clock ManualClock
	lim, err := New(Config{Rules: []limit.RuleConfig{strictRule("a", 2, time.Second, 10)}, Clock: &clock})
	if err != nil {
		t.Fatal(err)
	}
	r := lim.rules[0]
	key := r.BytesKey([]byte("x"))
	for i, tt := range []struct {
		at        time.Duration
		n, taken  uint64
		remaining int64
		retry     time.Duration
	}{
		{0, 4, 4, 6, 0},
		{0, 0, 0, 6, 0},
		{0, 100, 6, 0, 0},
		{0, 1, 0, 0, 500 * time.Millisecond},
		{750 * time.Millisecond, 5, 1, 0, 0}, // 8.5 are left, of which one fits on top
		{750 * time.Millisecond, 5, 0, 0, 250 * time.Millisecond},
		{time.Second, 5, 1, 0, 0},
		{time.Hour, 1 << 63, 10, 0, 0},
	} {
		clock.Set(tt.at)
		d, taken := r.TakeUpTo(t.Context(), key, tt.n)
		if taken != tt.taken || d.Remaining != tt.remaining || d.RetryAfter != tt.retry {
			t.Errorf("step %d: %d taken, %+v; want %+v", i, taken, d, tt)
		}
	}
	if s := r.Stats(); s.Allowed[limit.StageExact] != 5 || s.Denied[limit.StageTable] != 2 {
		t.Errorf("counted %+v", s)
	}
}

// TestTakeUpToConcurrently has 64 goroutines fill one bucket that does not leak:
// what they take is exactly the burst.
func TestTakeUpToConcurrently(t *testing.T) {
	t.Parallel()
	lim, err := New(Config{Rules: []limit.RuleConfig{strictRule("a", 1, 24*time.Hour, 10_000)}, Clock: new(ManualClock)})
	if err != nil {
		t.Fatal(err)
	}
	r := lim.rules[0]
	key := r.BytesKey([]byte("x"))
	taken := make([]uint64, goroutines)
	var wg sync.WaitGroup
	for g := range taken {
		wg.Go(func() {
			for i := range uint64(200) {
				_, n := r.TakeUpTo(t.Context(), key, i%7)
				if taken[g] += n; i%3 == 0 && n > 0 {
					r.Refund(key, 1)
					taken[g]--
				}
			}
		})
	}
	wg.Wait()
	sum := uint64(0)
	for _, n := range taken {
		sum += n
	}
	if sum != 10_000 {
		t.Errorf("%d units taken of 10,000", sum)
	}
}

// TestSharedTakeUpTo is TestSharedSandwich for takes of what fits among others.
func TestSharedTakeUpTo(t *testing.T) {
	for name, failing := range map[string]bool{"in time": false, "slow and failing": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { sharedTakeUpTo(t, failing) })
		})
	}
}

func sharedTakeUpTo(t *testing.T, failing bool) {
	rng := rand.New(rand.NewPCG(21, 22))
	var mu sync.Mutex
	draw := func(n int) int { mu.Lock(); defer mu.Unlock(); return rng.IntN(n) }
	s := newSlowStore(t)
	slowest := 2000
	if failing {
		slowest = 8000
	}
	s.delay = func() time.Duration { return time.Duration(draw(slowest)) * time.Microsecond }
	s.back = s.delay
	s.err = func() error {
		if failing && draw(50) == 0 {
			return errStore
		}
		return nil
	}
	cfg := strictRule("a", 5, time.Second, 12)
	r := sharedLimiter(t, s, cfg).rules[0]
	// The oracle has the times of requests, which reach the store up to 2 ms later.
	bound := 12 + 5*(limit.DefaultStoreTimeout+2*time.Millisecond).Seconds()
	start := time.Now()
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 5))
			o := judge.Leaky(cfg.Rate)
			key := r.BytesKey([]byte{byte(c)})
			for range 3000 {
				time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
				o.At(time.Since(start))
				n, taken := 1+rng.Uint64N(6), uint64(0)
				if rng.IntN(2) == 0 {
					var d limit.Decision
					d, taken = r.TakeUpTo(t.Context(), key, n)
					if err := checkFilled(o, r, d, n, taken); err != nil {
						t.Errorf("client %d: %v", c, err)
						return
					}
				} else if r.Take(t.Context(), key, n).Allowed {
					taken = n
				} else if !o.Justified(n, cfg.Burst) {
					t.Errorf("P1: client %d denied %d at level %v", c, n, float64(o.Level)/float64(o.Per))
					return
				}
				if level := o.Admit(taken); !failing && level > o.Units(bound) {
					t.Errorf("P2: client %d at level %v, bound %v", c, float64(level)/float64(o.Per), bound)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Takes of what fits that are in flight together share one operation, and its
// grants, first come, first served; of one that hung up all is given back.
func TestSharedTakeUpToInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := millisecond(t)
		r := sharedLimiter(t, s, strictRule("a", 1, time.Hour, 10)).rules[0]
		key := r.BytesKey([]byte("x"))
		go r.Take(t.Context(), key, 1) // the others arrive while it is in flight
		time.Sleep(100 * time.Microsecond)
		var wg sync.WaitGroup
		got := make([]uint64, 4)
		for i, n := range []uint64{3, 4, 6, 9} {
			ctx, cancel := context.WithCancel(t.Context())
			wg.Go(func() { _, got[i] = r.TakeUpTo(ctx, key, n) })
			synctest.Wait()
			if i == 1 {
				time.AfterFunc(1200*time.Microsecond, cancel) // while the second operation is in flight
			} else {
				defer cancel()
			}
		}
		wg.Wait()
		time.Sleep(time.Second)
		if got[0] != 3 || got[1] != 0 || got[2] != 6 || got[3] != 0 {
			t.Errorf("taken: %v, want 3 and 6: nine units for those who still wait", got)
		}
		if n := s.takes.Load(); n != 2 || s.doubled > 0 {
			t.Errorf("%d takes, %d overlapping, want 2 after each other", n, s.doubled)
		}

		r.Reset(key)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Microsecond)
		defer cancel()
		if _, n := r.TakeUpTo(ctx, key, 7); n != 0 {
			t.Errorf("hung up with %d units", n)
		}
		time.Sleep(time.Second)
		if d, n := r.TakeUpTo(t.Context(), key, 20); n != 10 || d.Remaining != 0 {
			t.Errorf("after that %d taken, want the whole burst: %+v", n, d)
		}

		// One hangs up beside one that stays: of what both were granted only the
		// part of the second is kept.
		r.Reset(key)
		synctest.Wait()
		go r.Take(t.Context(), key, 1)
		time.Sleep(100 * time.Microsecond)
		ctx, cancel = context.WithTimeout(t.Context(), 1200*time.Microsecond)
		defer cancel()
		wg.Go(func() { r.TakeUpTo(ctx, key, 4) })
		wg.Go(func() { r.TakeUpTo(t.Context(), key, 3) })
		wg.Wait()
		time.Sleep(time.Second)
		if d := r.Take(t.Context(), key, 6); !d.Allowed || d.Remaining != 0 {
			t.Errorf("after one of two hung up: %+v, want four of ten taken before", d)
		}
	})
}

// TestTakeUpToWithoutStore has the failure policy decide.
func TestTakeUpToWithoutStore(t *testing.T) {
	for _, tt := range []struct {
		policy limit.OnFailure
		want   []uint64 // of 4, 4 and 4 units
	}{{limit.FailLocal, []uint64{4, 4, 2}}, {limit.FailOpen, []uint64{4, 4, 4}}, {limit.FailClosed, []uint64{0, 0, 0}}} {
		t.Run(tt.policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for name, change := range map[string]func(*slowStore){
					"failing": func(s *slowStore) { s.err = func() error { return errors.New("away") } },
					"slow":    func(s *slowStore) { s.back = func() time.Duration { return 20 * time.Millisecond } },
				} {
					s := newSlowStore(t)
					change(s)
					cfg := strictRule("a", 1, time.Hour, 10)
					cfg.OnFailure = tt.policy
					r := sharedLimiter(t, s, cfg).rules[0]
					for i, want := range tt.want {
						d, n := r.TakeUpTo(t.Context(), r.BytesKey([]byte("x")), 4)
						if n != want || d.Stage != limit.StageFallback || !d.Degraded {
							t.Errorf("%s, take %d: %d units, %+v; want %d", name, i, n, d, want)
						}
						if name == "slow" {
							break // the answer has the later ones decided exactly
						}
						time.Sleep(50 * time.Millisecond)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// A reading that another has overtaken does not convict here either: what did not
// fit by it is judged again by the latest. That ends, also if the bucket has been swept at the later time: a
// lookup does not find it, and yet it is full at the time of the request.
func TestTakeUpToOvertaken(t *testing.T) {
	t.Parallel()
	for _, swept := range []bool{false, true} {
		for name, c := range map[string]limit.RuleConfig{
			"bucket": strictRule("a", 1, time.Second, 3), "log": withStrict(limit.RuleConfig{Name: "a", Rate: limit.Rate{N: 3, Per: time.Second}, Algorithm: limit.SlidingLog}),
			"sliding": withStrict(slidingRule("a", 3, time.Second)), "window": withStrict(windowRule("a", 3, time.Second)),
		} {
			var clock ManualClock
			lim, err := New(Config{Rules: []limit.RuleConfig{c}, Clock: &clock})
			if err != nil {
				t.Fatal(err)
			}
			r := lim.rules[0]
			key := r.BytesKey([]byte("x"))
			clock.Set(5 * time.Second)
			r.TakeUpTo(t.Context(), key, 3)
			clock.Set(20 * time.Second)
			if swept {
				r.buckets.Table.Sweep(r.buckets.Ticks(20*time.Second), 0, 1)
			}
			if d, n := r.takeUpTo(t.Context(), key, 3, 5*time.Second); n != 3 || d.Remaining != 0 {
				t.Errorf("%s, swept %v: read 15 s ago: %d taken, %+v; want 3, as all has leaked since", name, swept, n, d)
			}
		}
	}
}

// What a TakeUpTo could not take counts alike in the table, in a store, and here while
// that is away.
func TestTakeUpToCountsDenied(t *testing.T) {
	for _, where := range []string{"table", "store", "fallback"} {
		synctest.Test(t, func(t *testing.T) {
			c := withStrict(slidingRule("a", 10, time.Hour))
			c.CountDenied = true
			s := newSlowStore(t)
			cfg := Config{Rules: []limit.RuleConfig{c}, Store: s, Memory: 4 << 20}
			switch where {
			case "table":
				cfg.Store = nil
			case "fallback":
				s.err = func() error { return errStore }
			}
			lim, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			r := lim.rules[0]
			key := r.BytesKey([]byte("x"))
			time.Sleep(time.Hour / 2)
			r.Take(t.Context(), key, 8)
			time.Sleep(time.Hour) // of the 8 half counts
			for i, want := range []struct{ n, taken, current uint64 }{{4, 4, 4}, {5, 2, 9}, {5, 0, 10}} {
				_, taken := r.TakeUpTo(t.Context(), key, want.n)
				now := r.buckets.Ticks(lim.Now())
				_, level := r.buckets.Shape.Counts(r.buckets.Table.Lookup(key.digest()), now)
				if _, current := bucket.Unpack(level); taken != want.taken || current != want.current {
					t.Errorf("%s, %d: %d taken, %d count, want %+v", where, i, taken, current, want)
				}
			}
		})
	}
}
