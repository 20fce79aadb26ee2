package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit/judge"
)

// bucketOracle knows the level of one client's bucket as closely as one can without a
// look into the store: from above, every admitted unit charged when its answer came, and
// from below, those of the exact tier charged when they were asked for.
type bucketOracle struct {
	above, below *judge.Client
}

// Buckets has nodes share the leaky buckets of one rule: nobody is denied whose
// requests fit, at whatever time in its flight each of them was charged, and what the
// exact tier admits fits a bucket that holds what leaks in J more.
func (f Fleet) Buckets(t *testing.T) {
	t.Helper()
	const rate, burst = int64(40), uint64(60)
	limit := fastlimit.Rate{N: uint64(rate), Per: time.Second}
	sizes(func(nodes int) func() {
		rules := f.rules(t, nodes, fastlimit.RuleConfig{
			Name: "a", Rate: limit, Burst: burst, OnFailure: fastlimit.FailClosed,
		})
		most := int64(burst+uint64(rate))*unit + rate*int64(2*time.Microsecond) // J is a second
		return func() {
			begin, oracles, denials := time.Now(), [clients]bucketOracle{}, new(tally)
			for i := range oracles {
				oracles[i] = bucketOracle{judge.Leaky(limit), judge.Leaky(limit)}
			}
			decisions := f.ask(t, nodes, func() bool { return denials.tested(nodes) }, func(rng *rand.Rand, client byte, node int) {
				o, n := &oracles[client], 1+rng.Int64N(3)
				if rng.IntN(3000) == 0 { // the bucket drains
					time.Sleep(time.Duration(rng.Int64N(int64(atLeast))))
				}
				first := time.Since(begin)
				d := take(rules[node], client, uint64(n))
				last := time.Since(begin)
				switch {
				case d.Allowed:
					o.above.At(last)
					o.above.Admit(uint64(n))
					if d.Stage != fastlimit.StageExact {
						return
					}
					o.below.At(first)
					if level := o.below.Admit(uint64(n)); level-int64(last-first)*rate > most {
						t.Errorf("P2: client %d: level %v after %d units of the exact tier", client, o.below.InUnits(level), n)
					}
				case d.Stage != fastlimit.StageFallback:
					denials.add(d.Stage)
					if level := o.above.At(first); !o.above.Justified(uint64(n), burst) {
						t.Errorf("P1: %d units of client %d denied at stage %v at level %v of %d", n, client, d.Stage, o.above.InUnits(level), burst)
					}
				}
			})
			denials.check(t, nodes, decisions)
		}
	})
}
