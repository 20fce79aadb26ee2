package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// slidingOracle knows of each unit that the store admitted to one client between which
// times it was charged, by the store's clock, which is this machine's.
type slidingOracle struct {
	charges []slidingCharge
}

type slidingCharge struct {
	from, to time.Duration // since 1970
	units    uint64
}

// level is that at a time: of a log the units of the period ending then, of a sliding
// window both counts, weighted. Each charge counts as of the begin of its flight, or
// with late as of its end.
func (o *slidingOracle) level(at, per time.Duration, logged, late bool) (level uint64) {
	var previous, current uint64
	for _, c := range o.charges {
		when := c.from
		if late {
			when = c.to
		}
		switch {
		case logged && when+per > at:
			level += c.units
		case logged:
		case when/per >= at/per:
			current += c.units
		case when/per+1 == at/per:
			previous += c.units
		}
	}
	if logged {
		return level
	}
	const steps = 62_500
	rest := steps - uint64(at%per/(per/steps))
	return current + (previous*rest+steps-1)/steps
}

// forget drops what counts no more.
func (o *slidingOracle) forget(before time.Duration) {
	i := 0
	for i < len(o.charges) && o.charges[i].to < before {
		i++
	}
	o.charges = o.charges[i:]
}

// Sliding has one, two and three nodes keep sliding windows and logs of one rule: what
// the store admits keeps to the limit, whenever in its flight each unit was charged, and each
// denial is explained by that.
func (f Fleet) Sliding(t *testing.T) {
	t.Helper()
	for _, algorithm := range []fastlimit.Algorithm{fastlimit.SlidingWindow, fastlimit.SlidingLog} {
		t.Run(algorithm.String(), func(t *testing.T) {
			t.Parallel()
			sizes(func(nodes int) func() { return f.sliding(t, algorithm, nodes) })
		})
	}
}

func (f Fleet) sliding(t *testing.T, algorithm fastlimit.Algorithm, nodes int) (run func()) {
	t.Helper()
	const per, most = time.Second, 40
	logged := algorithm == fastlimit.SlidingLog
	rules := f.rules(t, nodes, fastlimit.RuleConfig{
		Name: "a", Rate: fastlimit.Rate{N: most, Per: per}, Algorithm: algorithm, OnFailure: fastlimit.FailClosed,
	})
	return func() {
		var oracles [clients]slidingOracle
		denials := new(tally)
		wall := func() time.Duration { return time.Duration(time.Now().UnixNano()) }
		decisions := f.ask(t, nodes, func() bool { return denials.tested(nodes) }, func(rng *rand.Rand, client byte, node int) {
			o, n := &oracles[client], 1+rng.Uint64N(3)
			from := wall().Truncate(time.Microsecond)
			d := take(rules[node], client, n)
			to := wall()
			o.forget(from - 3*per)
			switch {
			case d.Allowed && d.Stage == fastlimit.StageExact:
				o.charges = append(o.charges, slidingCharge{from, to, n})
				if level := o.level(to, per, logged, false); level > most {
					t.Errorf("P2: level %d of client %d after %d units", level, client, n)
				}
			case !d.Allowed && d.Stage != fastlimit.StageFallback:
				denials.add(d.Stage)
				if level := o.level(from, per, logged, true); level+n <= most {
					t.Errorf("P1: %d units of client %d denied at stage %v at level %d", n, client, d.Stage, level)
				}
			}
		})
		denials.check(t, nodes, decisions)
	}
}
