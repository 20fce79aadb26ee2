package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/judge"
	"github.com/fastlimit/fastlimit/limit"
)

// What P2 rests on beside the table: what the sketch and the filter forget, and
// when.

// TestCapLiesAboveP2: a client that floods until its cells stop rising, rests until they no longer make it a
// suspect, continues at its rate so that nothing drains, and floods again, stays within P2: cells that
// stopped at a level that P2 allows would let it pass unchecked while it is still full.
func TestCapLiesAboveP2(t *testing.T) {
	t.Parallel()
	for _, cfg := range []limit.RuleConfig{
		rule("a", 100, time.Second, 200),
		withTheta(rule("b", 100, time.Second, 1000), 0.9),
		withTheta(rule("c", 1, time.Minute, 300), 0.3),
	} {
		t.Run(cfg.Name, func(t *testing.T) {
			t.Parallel()
			unit := cfg.Rate.Per / time.Duration(cfg.Rate.N)
			burst := int(cfg.Burst)
			for rest := range burst { // units that leak before it goes on
				if rest%(burst/50) != 0 {
					continue
				}
				lim := mustNew(t, cfg)
				r := lim.rules[0]
				theta := *r.config.EscalateAt
				key, o, now := r.BytesKey([]byte("x")), judge.Leaky(cfg.Rate), time.Duration(0)
				send := func(n int, gap time.Duration) {
					for range n {
						now += gap
						o.At(now)
						if !takeAt(r, key, 1, now).Allowed {
							continue
						}
						if level, most := o.Admit(1), o.Units((1+theta)*float64(burst)+1); level > most {
							t.Fatalf("after a rest of %d units: level %v, bound %v", rest, float64(level)/float64(o.Per), float64(most)/float64(o.Per))
						}
					}
				}
				send(4*burst, 0)
				now += time.Duration(rest) * unit
				send(2*burst, unit)
				send(2*burst, 0)
			}
		})
	}
}

// TestForgottenIsEmpty: when the filter forgets a client its bucket has drained
// from the fullest level that P2 allows it, that with a decision in flight
// included: (1+θ)·B + 2. A filter that forgot a unit earlier would let it in
// uncounted once more.
func TestForgottenIsEmpty(t *testing.T) {
	t.Parallel()
	for _, burst := range []uint64{1, 2, 5, 9} { // of more, the filter's margin hides a unit
		t.Run(fmt.Sprint(burst), func(t *testing.T) {
			t.Parallel()
			lim := mustNew(t, rule("a", 1, time.Second, burst))
			r := lim.rules[0]
			key, o, now := r.BytesKey([]byte("x")), judge.Leaky(r.config.Rate), lim.Now()
			take := func(want limit.Stage) {
				t.Helper()
				o.At(now)
				if d := r.take(t.Context(), key, 1, now, stackStripe()); !d.Allowed || d.Stage != want {
					t.Fatalf("%+v, want it admitted by stage %v", d, want)
				}
				o.Admit(1)
			}
			turn := func() { // to the moment at which the generations turn
				lim.filter.Advance(now)
				for epoch := r.filter.Known(key.digest()); r.filter.Known(key.digest()) == epoch; now += time.Millisecond {
					lim.filter.Advance(now)
				}
			}

			// A decision that the filter has let through to the bucket stays in
			// flight until the filter has forgotten that it did.
			take(limit.StageFilter)
			late := now
			if stage := r.screen(key, 1, late, stackStripe()); stage != limit.StageExact {
				t.Fatalf("stage %v, want %v", stage, limit.StageExact)
			}
			turn()
			now = nextTurn(lim, now) - time.Millisecond
			o.At(now)
			if d := r.exact(t.Context(), key, 1, late, stackStripe()); !d.Allowed {
				t.Fatalf("the late one: %+v", d)
			}
			o.Admit(1)
			take(limit.StageFilter)
			for range burst {
				take(limit.StageExact)
			}
			if want := o.Units(float64(burst) + 2); o.Level != want {
				t.Fatalf("level %d, want the fullest of %d", o.Level, want)
			}
			turn() // it marked the generation that ends right now
			if o.At(now); o.Level > 0 {
				t.Errorf("forgotten at a level of %v units", float64(o.Level)/float64(o.Per))
			}
		})
	}
}

// nextTurn is when the filter turns next.
func nextTurn(l *Limiter, now time.Duration) time.Duration {
	window := l.plan.Window
	return now + window + window/16
}
