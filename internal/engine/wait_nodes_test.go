package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/limit"
)

// twoNodes share a store.
func twoNodes(t *testing.T, store bucket.Store, rules ...limit.RuleConfig) (nodes [2]*Limiter) {
	t.Helper()
	for i := range nodes {
		nodes[i] = waiting(t, Config{Rules: rules, Store: store, StoreTimeout: time.Millisecond})
	}
	return nodes
}

// What a store has charged for one rule stays so while another one makes the request wait,
// because another node was there first, and is given back if it leaves.
func TestWaitAllGivesBack(t *testing.T) {
	t.Parallel()
	for _, leaves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New(memstore.Config{})
			defer func() { _ = store.Close(context.Background()) }()
			a := waitRule("a", 1, 1, time.Hour)
			a.Rate.Per = time.Minute
			nodes := twoNodes(t, store, a, waitRule("b", 1, 1, time.Hour))
			p := newParty()
			waitAlls(t, nodes[1], p, 0, 1)
			ctx, leave := context.WithCancel(t.Context())
			p.ask(1, func() limit.Decision {
				r, b := nodes[0].rules[0], nodes[0].rules[1]
				d, _ := nodes[0].WaitAll(ctx, []Charge{{r, r.BytesKey([]byte("a")), 1}, {b, b.BytesKey([]byte("a")), 1}})
				return d
			})
			if s := nodes[0].rules[1].Stats().Waits; s.Waiting != 1 {
				t.Fatalf("%+v, want one waiting", s)
			}
			time.Sleep(100 * time.Millisecond)
			in, at := []int{0, 1, 2}, []time.Duration{0, time.Second, time.Minute}
			if leaves {
				leave()
				synctest.Wait()
				in, at = []int{0, 2}, []time.Duration{0, 100 * time.Millisecond}
			}
			waitAlls(t, nodes[1], p, 2, 0)
			p.wg.Wait()
			leave()
			for i := range in {
				if len(p.in) != len(in) || p.in[i] != in[i] || (p.at[i]-at[i]).Abs() > 5*time.Millisecond {
					t.Fatalf("in %v at %v, want %v at %v", p.in, p.at, in, at)
				}
			}
			if n := nodes[0].rules[1].Stats().Denied[limit.StageTable]; n != 0 {
				t.Errorf("%d: one that waits is not denied", n)
			}
		})
	}
}

// Other nodes may be faster. Then the first in the queue is denied as soon as its units can no longer fit in
// time, and learns when they would.
func TestWaitForWhatOthersTake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		defer func() { _ = store.Close(context.Background()) }()
		nodes := twoNodes(t, store, waitRule("a", 1, 2, 2500*time.Millisecond))
		take := func(n uint64) {
			r := nodes[1].rules[0]
			if d := r.Take(t.Context(), r.BytesKey([]byte("a")), n); !d.Allowed {
				t.Fatalf("%+v", d)
			}
		}
		take(2)
		p, r := newParty(), nodes[0].rules[0]
		p.ask(0, func() limit.Decision { return r.Wait(t.Context(), r.BytesKey([]byte("a")), 2) })
		time.Sleep(time.Second)
		take(1)
		p.wg.Wait()
		if d := p.out[0]; (time.Since(p.start)-2*time.Second).Abs() > 5*time.Millisecond || (d.RetryAfter-time.Second).Abs() > 5*time.Millisecond {
			t.Errorf("%+v after %v, want to retry in 1 s, after 2 s", d, time.Since(p.start))
		}
		if s := r.Stats().Waits; s != (limit.WaitStats{Denied: 1}) {
			t.Errorf("%+v", s)
		}
	})
}

// Requests do not wait for a denial due to a store that is away: they get no slot, and are denied at once.
func TestNoWaitForAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newSlowStore(t)
		defer func() { _ = store.Close(context.Background()) }()
		store.err = func() error { return errStore }
		rule := waitRule("a", 1, 1, time.Minute)
		rule.OnFailure = limit.FailClosed
		r := waiting(t, Config{Rules: []limit.RuleConfig{rule}, Store: store, StoreTimeout: time.Millisecond}).rules[0]
		start := time.Now()
		if d := r.Wait(t.Context(), r.BytesKey([]byte("a")), 1); d.Allowed || time.Since(start) > 5*time.Millisecond || r.Stats().Waits != (limit.WaitStats{}) {
			t.Errorf("%+v after %v, %+v", d, time.Since(start), r.Stats().Waits)
		}
	})
}

// A released request learns when its units would fit, which does not count its own twice.
func TestLetGoKnowsWhen(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, c Config) {
		c.Rules = []limit.RuleConfig{waitRule("a", 1, 1, time.Minute)}
		lim := waiting(t, c)
		r, p := lim.rules[0], newParty()
		for i := range 2 {
			p.ask(i, func() limit.Decision { return r.Wait(t.Context(), r.BytesKey([]byte("a")), 1) })
		}
		lim.StopWaiting()
		p.wg.Wait()
		if d := p.out[1]; (d.RetryAfter - time.Second).Abs() > time.Microsecond {
			t.Errorf("%+v, want to retry in 1 s", d)
		}
	})
}

// A client denied only because the store was slow for the one ahead is not banned for it.
func TestNoBanForWantOfATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newSlowStore(t)
		defer func() { _ = store.Close(context.Background()) }()
		var slow atomic.Bool
		store.delay = func() time.Duration {
			if slow.Load() {
				return 120 * time.Millisecond
			}
			return 0
		}
		rule := waitRule("a", 10, 1, 155*time.Millisecond)
		rule.Ban = limit.BanPolicy{After: 1, For: time.Minute}
		r := waiting(t, Config{Rules: []limit.RuleConfig{rule}, Store: store, StoreTimeout: 150 * time.Millisecond}).rules[0]
		p := newParty()
		for i := range 4 { // the store's bucket holds two and a half: 2 has its turn after 50 ms, 3 after 150
			p.ask(i, func() limit.Decision { return r.Wait(t.Context(), r.BytesKey([]byte("a")), 1) })
		}
		slow.Store(true)
		p.wg.Wait()
		if d := p.out[3]; !slices.Equal(p.in, []int{0, 1, 2}) || d.Stage != limit.StageTable || r.Stats().Bans > 0 {
			t.Errorf("in %v at %v, out %+v, %d bans", p.in, p.at, p.out, r.Stats().Bans)
		}
	})
}
