package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// bucketOracle knows the level of one client's bucket as closely as one can without a
// look into the store: from above, every admitted unit charged when its answer came, and
// from below, those of the exact tier charged when they were asked for.
type bucketOracle struct {
	above, below leaky
}

// Buckets has nodes share the leaky buckets of one rule: nobody is denied whose
// requests fit, at whatever time in its flight each of them was charged, and what the
// exact tier admits fits a bucket that holds what leaks in J more.
func (f Fleet) Buckets(t *testing.T) {
	t.Helper()
	const unit, rate, burst = int64(time.Second), int64(40), uint64(60)
	sizes(func(nodes int) func() {
		rules := f.rules(t, nodes, fastlimit.RuleConfig{
			Name: "a", Rate: fastlimit.Rate{N: uint64(rate), Per: time.Second}, Burst: burst, OnFailure: fastlimit.FailClosed,
		})
		most := int64(burst+uint64(rate))*unit + rate*int64(2*time.Microsecond) // J is a second
		return func() {
			begin, oracles, denials := time.Now(), [clients]bucketOracle{}, new(tally)
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
					o.above.leak(last, rate)
					o.above.level += n * unit
					if d.Stage != fastlimit.StageExact {
						return
					}
					o.below.leak(first, rate)
					if o.below.level += n * unit; o.below.level-int64(last-first)*rate > most {
						t.Errorf("P2: client %d: level %v after %d units of the exact tier", client, float64(o.below.level)/float64(unit), n)
					}
				case d.Stage != fastlimit.StageFallback:
					denials.add(d.Stage)
					if level := o.above.leak(first, rate); level+n*unit <= int64(burst)*unit {
						t.Errorf("P1: %d units of client %d denied at stage %v at level %v of %d", n, client, d.Stage, float64(level)/float64(unit), burst)
					}
				}
			})
			denials.check(t, nodes, decisions)
		}
	})
}
