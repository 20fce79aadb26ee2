package engine

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// Those who wait when the limit changes are asked by the new one from then on, in order and for as
// long as either lets them; those who come are behind them, and nobody is
// banned for it.
func TestWaitersAskTheNewLimit(t *testing.T) {
	t.Parallel()
	from := waitRule("a", 6, 1, time.Minute)
	from.Rate.Per = time.Minute
	to := func(change func(c *limit.RuleConfig)) limit.RuleConfig {
		c := from
		change(&c)
		return c
	}
	for name, test := range map[string]struct {
		to    limit.RuleConfig
		in    []time.Duration // of those who waited, in ms after the change
		comes time.Duration   // and of one that comes then; -1: nobody does
	}{
		"the same":     {from, []time.Duration{9500, 19500, 29500}, 39500},
		"higher":       {to(func(c *limit.RuleConfig) { c.Rate, c.MaxWait = perSec(1000), 300*time.Millisecond }), []time.Duration{1, 2, 3}, 4},
		"more at once": {to(func(c *limit.RuleConfig) { c.Burst = 3 }), []time.Duration{0, 0, 9500}, 19500},
		"no waiting":   {to(func(c *limit.RuleConfig) { c.Rate, c.MaxWait = perSec(1000), 0 }), []time.Duration{1, 2, 3}, -1},
		"shadow":       {to(func(c *limit.RuleConfig) { c.Mode, c.MaxWait = limit.Shadow, 0 }), []time.Duration{0, 0, 0}, -1},
		"lower":        {to(func(c *limit.RuleConfig) { c.Rate.N = 1 }), []time.Duration{57000}, -1}, // the next would fit a minute later
		"slower":       {to(func(c *limit.RuleConfig) { c.Rate.N, c.MaxWait = 2, 2*time.Minute }), []time.Duration{28500, 58500, 88500}, 118500},
		"fractions":    {to(func(c *limit.RuleConfig) { c.Rate, c.Thousandths = perSec(100), true }), []time.Duration{10, 20, 30}, 40},
		"by a window": {to(func(c *limit.RuleConfig) {
			c.Rate, c.Algorithm, c.MaxWait, c.Burst = perSec(100), limit.FixedWindow, 0, 0
		}), []time.Duration{0, 0, 0}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 100*time.Millisecond))) // for windows
				ban := limit.BanPolicy{After: 1, For: time.Hour}
				from, to := from, test.to
				from.Ban, to.Ban = ban, ban
				lim := waiting(t, Config{Rules: []limit.RuleConfig{from}})
				p := newParty()
				for i := range 4 {
					p.ask(i, func() limit.Decision {
						r := lim.rules[0]
						return r.Wait(t.Context(), r.BytesKey([]byte("a")), r.CostScale())
					})
				}
				time.Sleep(500 * time.Millisecond)
				next, err := lim.With(Config{Memory: limit.MinMemory, Rules: []limit.RuleConfig{to}})
				if err != nil {
					t.Fatal(err)
				}
				want := append([]time.Duration{-500}, test.in...)
				if test.comes >= 0 {
					p.ask(4, func() limit.Decision {
						r := next.rules[0]
						return r.Wait(t.Context(), r.BytesKey([]byte("a")), r.CostScale())
					})
					want = append(want, test.comes)
				}
				p.wg.Wait()
				if len(p.in) != len(want) {
					t.Fatalf("in %v, out %v, want %d in", p.in, p.out, len(want))
				}
				for i, guest := range p.in {
					if at := 500*time.Millisecond + want[guest]*time.Millisecond; (p.at[i] - at).Abs() > time.Millisecond {
						t.Errorf("guest %d in at %v, want %v", guest, p.at[i], at)
					}
				}
				if n := next.rules[0].Stats().Bans; n > 0 {
					t.Errorf("%d bans, %v", n, p.out)
				}
			})
		})
	}
}

// A request that waits asks the last limiter that With has made of its own, also if another one was made
// and given up in between, as by a reload that fails late.
func TestWaitersLeaveAGivenUpLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rule := func(r limit.Rate) limit.RuleConfig {
			c := waitRule("a", 1, 1, time.Minute)
			c.Rate = r
			return c
		}
		lim := waiting(t, Config{Rules: []limit.RuleConfig{rule(limit.Rate{N: 6, Per: time.Minute})}})
		with := func(r limit.Rate) *Limiter {
			next, err := lim.With(Config{Memory: limit.MinMemory, Rules: []limit.RuleConfig{rule(r)}})
			if err != nil {
				t.Fatal(err)
			}
			return next
		}
		r, p := lim.rules[0], newParty()
		for i := range 2 {
			p.ask(i, func() limit.Decision { return r.Wait(t.Context(), r.BytesKey([]byte("a")), 1) })
		}
		givenUp := with(limit.Rate{N: 2, Per: time.Minute})
		time.Sleep(time.Second)
		next := with(perSec(1000))
		p.wg.Wait()
		if len(p.in) != 2 || p.at[1] > 2*time.Second {
			t.Errorf("in %v at %v, out %v: want both in after a second", p.in, p.at, p.out)
		}
		runtime.KeepAlive(givenUp)
		runtime.KeepAlive(next)
	})
}

// Ten thousand wait when the limit is raised, again and again, in limiters of which those in
// between are gone: all are let in at the last rate, in order.
func TestManyWaitWhileTheLimitIsRaised(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const guests = 10_000
		config := func(n uint64) Config {
			rule := waitRule("a", n, 1, time.Hour)
			rule.Ban = limit.BanPolicy{After: 1, For: time.Hour}
			return Config{Memory: limit.MinMemory, Rules: []limit.RuleConfig{rule}, Wait: limit.WaitLimits{PerKey: guests, Total: guests}}
		}
		lim := waiting(t, config(3))
		r, p := lim.rules[0], newParty()
		came := make(chan struct{}) // in order
		for i := range guests {
			p.wg.Go(func() {
				<-came
				d := r.Wait(t.Context(), r.BytesKey([]byte("a")), 1)
				p.mu.Lock()
				defer p.mu.Unlock()
				if d.Allowed {
					p.in, p.at = append(p.in, i), append(p.at, time.Since(p.start))
				} else {
					p.out[i] = d
				}
			})
			came <- struct{}{}
			synctest.Wait()
		}
		last := lim
		for _, n := range []uint64{5, 100, 1000, 10_000} {
			time.Sleep(time.Second)
			next, err := last.With(config(n))
			if err != nil {
				t.Fatal(err)
			}
			last = next
			runtime.GC()
		}
		p.wg.Wait()
		if len(p.in) != guests || !slices.IsSorted(p.in) {
			t.Fatalf("%d of %d in, in order: %t", len(p.in), guests, slices.IsSorted(p.in))
		}
		// 1 at once, some 3, 5, 100 and 1000 in a second each, the others at 10,000/s.
		if took := time.Since(p.start); took < 4*time.Second+800*time.Millisecond || took > 5*time.Second {
			t.Errorf("the last one after %v", took)
		}
		if d := last.rules[0].Stats(); d.Bans != 0 || lim.waiters.Slots() != 0 {
			t.Errorf("%d bans, %d places", d.Bans, lim.waiters.Slots())
		}
	})
}
