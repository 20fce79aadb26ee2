package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// A client that names another rate with each request has one queue and one bucket: at every rate each request
// is admitted exactly when the oracle says, behind all that came before, and one with a slot is not denied
// for what those ahead need at other rates.
func TestWaitAtNamedRates(t *testing.T) {
	t.Parallel()
	var sum waitSum
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			burst := 1 + rng.Uint64N(8)
			rule := waitRule("a", 10, burst, time.Duration(1+rng.Int64N(3_000_000))*time.Microsecond)
			rule.MaxRate = perSec(1000)
			lim := waiting(t, Config{Rules: []limit.RuleConfig{rule}, Wait: limit.WaitLimits{PerKey: 1 + rng.IntN(8)}})
			r := lim.rules[0]
			limits := []*Rule{r, r.AtRate(perSec(20)), r.AtRate(perSec(5)), r.AtRate(limit.Rate{N: 4, Per: 100 * time.Millisecond}), r.AtRate(limit.Rate{N: 120, Per: time.Minute})}
			o := doorman{most: rule.MaxWait.Microseconds(), perKey: lim.waitLimits.PerKey}
			for _, l := range limits {
				c := l.Config()
				unit := c.Rate.Per.Microseconds() / int64(c.Rate.N)
				o.limits = append(o.limits, allowance{unit, int64(c.Burst) * unit})
			}
			all := stream(rng, 300, 2, 100_000, o.most, 4)
			for i := range all {
				all[i].by = rng.IntN(len(limits))
			}
			out := host(t, all, limits...)
			for key := range 2 {
				each := o
				if err := each.judge(all, out, key); err != nil {
					t.Errorf("seed %d: burst %d, wait %v: %v", seed, burst, rule.MaxWait, err)
					return
				}
			}
			sum.add(t, lim)
		})
	}
	if sum.Admitted < 1000 || sum.Left < 100 || sum.Refused < 100 {
		t.Errorf("too little has happened: %+v", sum)
	}
}

// The slots of a client are the rule's, whatever rates it names, even if a rate was forgotten meanwhile and
// made again: in order, bounded and counted together.
func TestNamedRatesShareALine(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, c Config) {
		rule := waitRule("a", 10, 1, 2*time.Second)
		rule.MaxRate = perSec(1000)
		c.Rules, c.Wait.PerKey, c.Memory = []limit.RuleConfig{rule}, 3, 8*limit.MinMemory
		lim := waiting(t, c)
		r, p := lim.rules[0], newParty()
		ask := func(i int, by limit.Rate) {
			one := r.AtRate(by)
			p.ask(i, func() limit.Decision { return one.Wait(t.Context(), one.BytesKey([]byte("a")), 1) })
		}
		ask(0, perSec(10))
		ask(1, perSec(10)) // waits
		ask(2, perSec(20)) // would fit
		first := r.AtRate(perSec(20))
		for i := range 2 * limit.MaxNamedRates {
			r.AtRate(limit.Rate{N: uint64(i) + 1, Per: time.Hour})
		}
		if r.AtRate(perSec(20)) == first {
			t.Fatal("the rate was not forgotten")
		}
		ask(3, perSec(10))
		ask(4, perSec(20)) // finds no place
		for _, one := range []*Rule{r, first, r.AtRate(perSec(7))} {
			if s := one.Stats().Waits; s != (limit.WaitStats{Waiting: 3, Refused: 1}) {
				t.Errorf("%v: %+v", one.config.Rate, s)
			}
		}
		p.wg.Wait()
		for i, want := range []time.Duration{0, 100, 100, 250} { // ms: 2 takes 50 ms
			if len(p.at) != 4 || p.in[i] != i || (p.at[i]-want*time.Millisecond).Abs() > 4*time.Millisecond {
				t.Fatalf("in %v at %v, out %v", p.in, p.at, p.out)
			}
		}
		if s := first.Stats().Waits; s != (limit.WaitStats{Admitted: 3, Refused: 1}) || lim.waiters.Slots() != 0 {
			t.Errorf("%+v, %d places", s, lim.waiters.Slots())
		}
	})
}

// Clients with a live tier wait in its own queues. Those who wait when it is dropped continue as if it were
// not: in order, at its rate, counted by the rule, released by StopWaiting. The next tier with its index does
// not affect them.
func TestWaitInLiveTier(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, c Config) {
		c.Rules, c.Wait.PerKey = []limit.RuleConfig{waitRule("a", 1, 1, time.Hour)}, 20
		lim := waiting(t, c)
		r, p := lim.rules[0], newParty()
		live := func() *Rule {
			tier, err := r.NewTier(limit.Tier{Rate: perSec(10), Burst: 1})
			if err != nil {
				t.Fatal(err)
			}
			return tier
		}
		ask := func(i int, r *Rule, key string) {
			p.ask(i, func() limit.Decision { return r.Wait(t.Context(), r.BytesKey([]byte(key)), 1) })
		}
		old := live()
		for i := range 5 {
			ask(i, old, "x")
		}
		r.DropTier(old)
		next := live()
		if next.TierIndex() != old.TierIndex() || next.queues == old.queues {
			t.Error("the next tier has another index, or the same lines")
		}
		ask(5, next, "y") // at once
		ask(6, r, "z")    // at once
		ask(7, old, "x")  // it was looked up before
		if s, want := r.Stats().Waits, (limit.WaitStats{Waiting: 5}); s != want || old.Stats().Waits != want || next.Stats().Waits != want {
			t.Errorf("%+v, want %+v", s, want)
		}
		time.Sleep(350 * time.Millisecond)
		synctest.Wait()
		ask(8, next, "y")
		lim.StopWaiting()
		p.wg.Wait()
		if want := []int{0, 5, 6, 1, 2, 3, 8}; !slices.Equal(p.in, want) || time.Since(p.start) != 350*time.Millisecond {
			t.Errorf("in %v at %v, want %v", p.in, p.at, want)
		}
		for i := range 3 {
			if at := p.at[3+i]; (at - time.Duration(i+1)*100*time.Millisecond).Abs() > 5*time.Millisecond {
				t.Errorf("guest %d in at %v", p.in[3+i], at)
			}
		}
		if s := r.Stats().Waits; s != (limit.WaitStats{Admitted: 3, Denied: 2}) || lim.waiters.Slots() != 0 || !old.queues.Empty() {
			t.Errorf("%+v, %d places", s, lim.waiters.Slots())
		}
	})
}

// Two that came together may fit at one moment, the last of their time: the second is not
// denied because its timer is faster than the first.
func TestPlaceHoldsUntilTheLastMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rule := waitRule("a", 10, 1, 100*time.Millisecond)
		rule.MaxRate = perSec(1000)
		r := waiting(t, Config{Rules: []limit.RuleConfig{rule}, Memory: 8 * limit.MinMemory}).rules[0]
		faster, p := r.AtRate(perSec(20)), newParty()
		for key := range byte(50) {
			for i, one := range []*Rule{r, r, faster} {
				p.ask(i, func() limit.Decision { return one.Wait(t.Context(), one.BytesKey([]byte{key}), 1) })
			}
		}
		if p.wg.Wait(); len(p.in) != 150 || time.Since(p.start) != 100*time.Millisecond {
			t.Errorf("%d in, %v, after %v", len(p.in), p.out, time.Since(p.start))
		}
	})
}
