package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/internal/exact"
	"github.com/fastlimit/fastlimit/limit"
)

// waitAlls has guests charge several rules, of the same key in each.
func waitAlls(t *testing.T, lim *Limiter, p *party, i int, rules ...int) {
	t.Helper()
	charges := make([]Charge, len(rules))
	for j, k := range rules {
		r := lim.rules[k]
		charges[j] = Charge{r, r.BytesKey([]byte("a")), 1}
	}
	p.ask(i, func() limit.Decision {
		d, _ := lim.WaitAll(t.Context(), charges)
		return d
	})
}

// A request that a rule denies permanently has no slot in the queues of the others, and has taken nothing;
// one that several rules hold waits in all of their queues.
func TestWaitAll(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, c Config) {
		strict := waitRule("strict", 1, 1, 0) // lets nobody wait
		c.Rules = []limit.RuleConfig{waitRule("fast", 10, 1, 5*time.Second), waitRule("slow", 2, 1, 5*time.Second), strict}
		lim := waiting(t, c)
		p := newParty()
		waitAlls(t, lim, p, 0, 0, 1)
		waitAlls(t, lim, p, 1, 0, 1)
		waitAlls(t, lim, p, 2, 0) // behind 1 in fast
		waitAlls(t, lim, p, 3, 0, 1)
		waitAlls(t, lim, p, 4, 2)
		waitAlls(t, lim, p, 5, 0, 1, 2) // denied by strict
		waitAlls(t, lim, p, 6, 2, 1)
		if a, b := lim.rules[0].Stats().Waits, lim.rules[1].Stats().Waits; a.Waiting != 3 || b.Waiting != 2 {
			t.Errorf("waiting: %d and %d, want 3 and 2", a.Waiting, b.Waiting)
		}
		_, out := p.sofar()
		for _, i := range []int{5, 6} {
			if d := out[i]; d.Allowed || d.Stage != limit.StageTable || d.RetryAfter <= 0 {
				t.Errorf("%d: %+v", i, d)
			}
		}
		p.wg.Wait()
		want, at := []int{0, 4, 2, 1, 3}, []time.Duration{0, 0, 200, 500, 1000}
		for i := range want {
			if p.in[i] != want[i] || (p.at[i]-at[i]*time.Millisecond).Abs() > time.Millisecond {
				t.Fatalf("in: %v at %v, want %v at %v ms", p.in, p.at, want, at)
			}
		}
		for i, r := range lim.rules {
			if got, want := r.Stats().Allowed[limit.StageExact], []uint64{4, 3, 1}[i]; got != want {
				t.Errorf("rule %d admitted %d, want %d", i, got, want)
			}
			if r.Peek(r.BytesKey([]byte("a")), 1).TimeToEmpty > []time.Duration{100, 500, 1000}[i]*time.Millisecond+time.Microsecond {
				t.Errorf("rule %d holds more than one unit", i)
			}
		}
	})
}

// One that waits for one rule has been charged by the others when it came, whether they let
// anybody wait or not: what comes later is behind it. If it leaves, it has taken nothing.
func TestWaitAllIsCharged(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, c Config) {
		c.Rules = []limit.RuleConfig{waitRule("a", 1, 1, 5*time.Second), waitRule("b", 1, 1, 3*time.Second), waitRule("c", 1, 1, 0)}
		lim := waiting(t, c)
		p := newParty()
		waitAlls(t, lim, p, 0, 0)
		waitAlls(t, lim, p, 1, 0, 1, 2) // waits in a until 1 s
		time.Sleep(500 * time.Millisecond)
		waitAlls(t, lim, p, 2, 1) // waits in b until 1 s
		waitAlls(t, lim, p, 3, 2) // is denied by c
		waitAlls(t, lim, p, 4, 1) // waits in b until 2 s
		p.wg.Wait()
		want, at := []int{0, 1, 2, 4}, []time.Duration{0, 1000, 1000, 2000}
		slices.Sort(p.in[1:3])
		for i := range want {
			if len(p.in) != len(want) || p.in[i] != want[i] || (p.at[i]-at[i]*time.Millisecond).Abs() > 2*time.Millisecond {
				t.Fatalf("in: %v at %v, want %v at %v ms", p.in, p.at, want, at)
			}
		}
		if d := p.out[3]; d.Allowed || (d.RetryAfter-500*time.Millisecond).Abs() > time.Millisecond {
			t.Errorf("%+v, want to retry in 0.5 s", d)
		}
		r, after := lim.rules[0], lim.rules[2]
		ctx, leave := context.WithCancel(t.Context())
		key := []byte("a")
		p.ask(5, func() limit.Decision { return r.Wait(t.Context(), r.BytesKey(key), 1) })
		p.ask(6, func() limit.Decision {
			d, _ := lim.WaitAll(ctx, []Charge{{r, r.BytesKey(key), 1}, {after, after.BytesKey(key), 1}})
			return d
		})
		if d := after.Peek(after.BytesKey(key), 1); d.Allowed {
			t.Errorf("%+v while 6 waits", d)
		}
		leave()
		p.wg.Wait()
		if d := after.Peek(after.BytesKey(key), 1); !d.Allowed || p.out[6] != exact.Abandoned() {
			t.Errorf("%+v after 6 has left: %+v", d, p.out[6])
		}
	})
}

// What a store's failure policy says while requests wait.
func TestWaitStoreAway(t *testing.T) {
	t.Parallel()
	for _, policy := range []limit.OnFailure{limit.FailLocal, limit.FailOpen, limit.FailClosed} {
		synctest.Test(t, func(t *testing.T) {
			store := newSlowStore(t)
			defer func() { _ = store.Close(context.Background()) }()
			var away atomic.Bool
			store.err = func() error {
				if away.Load() {
					return errStore
				}
				return nil
			}
			rule := waitRule("a", 1, 1, 10*time.Second)
			rule.OnFailure = policy
			lim := waiting(t, Config{Rules: []limit.RuleConfig{rule}, Store: store, StoreTimeout: time.Millisecond})
			p := newParty()
			for i := range 5 {
				waitAlls(t, lim, p, i, 0)
			}
			time.Sleep(500 * time.Millisecond)
			away.Store(true)
			p.wg.Wait()
			in, last := 5, 4*time.Second
			switch policy {
			case limit.FailOpen:
				last = time.Second
				slices.Sort(p.in) // all that wait return at one moment, in no order
			case limit.FailClosed:
				in = 1
			}
			if len(p.in) != in || !slices.IsSorted(p.in) || in > 1 && (p.at[4]-last).Abs() > 10*time.Millisecond {
				t.Errorf("%v: in %v at %v, want %d, the last at %v", policy, p.in, p.at, in, last)
			}
			if store.doubled > 0 {
				t.Errorf("%d operations beside another one on the bucket", store.doubled)
			}
		})
	}
}

// A client with another limit waits as well, in the lines of the rule and for units of its
// own; and one whose limit changes while it waits is not behind those who wait for the
// old one.
func TestWaitOfTiers(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, c Config) {
		c.Rules = []limit.RuleConfig{{Name: "a", Rate: limit.Rate{N: 1, Per: time.Minute}, Burst: 1, MaxWait: time.Hour, Strict: true, Tiers: []limit.Tier{{Rate: limit.Rate{N: 10, Per: time.Second}, Burst: 1}}}}
		r, p := waiting(t, c).rules[0], newParty()
		ask := func(i int, r *Rule) {
			p.ask(i, func() limit.Decision { return r.Wait(t.Context(), r.BytesKey([]byte("a")), 1) })
		}
		ask(0, r)
		ask(1, r)
		ask(2, r.Tier(0))
		ask(3, r.Tier(0))
		ask(4, r.Tier(0))
		late := time.Duration(0)
		if c.Store != nil { // whose bucket is one, with the units taken before
			late = 100 * time.Millisecond
		}
		if s := r.Stats().Waits; s.Waiting != 3+int64(late/(100*time.Millisecond)) || s != r.Tier(0).Stats().Waits {
			t.Errorf("%+v, want three waiting, with a store four", s)
		}
		p.wg.Wait()
		for i, want := range []time.Duration{0, late, 100*time.Millisecond + late, 200*time.Millisecond + late, time.Minute + 3*late} {
			if len(p.at) <= i || (p.at[i]-want).Abs() > 2*time.Millisecond {
				t.Fatalf("%v in at %v, %v out", p.in, p.at, p.out)
			}
		}
		if want := []int{0, 2, 3, 4, 1}; !slices.Equal(p.in, want) {
			t.Errorf("%v in, want %v", p.in, want)
		}
	})
}
