package fleet

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

// namedRates are what a proxy names in turns, each with a burst of N, so that a client may
// be busy for Per at most. A unit takes whole ns at each.
var namedRates = []fastlimit.Rate{
	{N: 20, Per: time.Second}, {N: 5, Per: time.Second}, {N: 10, Per: 200 * time.Millisecond}, {N: 6, Per: 3 * time.Second}, {N: 100, Per: time.Second},
}

// busyOracle is until when a client is busy, in time since the test began.
type busyOracle struct{ least, most time.Duration }

// Named has clients whose rates alternate ask any of two nodes. It compares with exact
// oracles, in whole ns: what fits is admitted, at whatever rates the client was charged
// before (P1), and what does not fit is denied (P2), for the rounding of a millionth, a µs of
// grace, and one of clocks.
func (f Fleet) Named(t *testing.T) {
	t.Helper()
	const nodes, asked = 2, 750
	const slack = time.Second // what a shared bucket holds more: the timeout of the store
	rules := f.rules(t, nodes, fastlimit.RuleConfig{
		Name: "a", Rate: namedRates[0], Burst: namedRates[0].N, MaxRate: fastlimit.Rate{N: 1000, Per: time.Second}, OnFailure: fastlimit.FailClosed,
	})
	rng := rand.New(rand.NewPCG(1, 2))
	var oracles [clients]busyOracle
	admitted, denied := make([]int, len(namedRates)), make([]int, len(namedRates))
	begin, end := time.Now(), testkit.Deadline(t)
	tested := func() bool { return !slices.Contains(admitted, 0) && !slices.Contains(denied, 0) }
	for i := 0; i < asked || !tested() && time.Now().Before(end); i++ {
		client, which, n := byte(rng.IntN(clients)), rng.IntN(len(namedRates)), 1+rng.Int64N(3)
		if i >= asked { // a slow machine: one client, and about as much as fits
			client = 0
		}
		rate, o := namedRates[which], &oracles[client]
		unit, most := rate.Per/time.Duration(rate.N), rate.Per+slack
		near := most/1_000_000 + 2*time.Microsecond
		time.Sleep(time.Duration(rng.Int64N(int64(4 * time.Millisecond)))) // it drains meanwhile
		if i >= asked {
			fits := int64((most - max(0, o.most-time.Since(begin))) / unit)
			n = min(max(1, fits-1+rng.Int64N(3)), int64(rate.N))
		}
		cost := time.Duration(n) * unit
		first := time.Since(begin)
		d := take(rules[rng.IntN(nodes)].AtRate(rate), client, uint64(n))
		last := time.Since(begin)
		surely, perhaps := max(o.least, first)-last, max(o.most, first)-first // busy, at least and at most
		switch {
		case d.Degraded: // may have been charged, until it is too late for the store
			o.most = max(o.most, last+slack) + cost
		case d.Allowed:
			if surely+cost > most+near {
				t.Fatalf("P2: client %d is busy for %v, and %d units at %v are admitted: %+v", client, surely, n, rate, d)
			}
			o.least, o.most = max(o.least, first)+cost, max(o.most, last)+cost
			admitted[which]++
		default:
			if perhaps+cost < most-near {
				t.Fatalf("P1: client %d is busy for %v at most, and %d units at %v are denied: %+v", client, perhaps, n, rate, d)
			}
			denied[which]++
		}
	}
	t.Logf("admitted %v and denied %v in %v", admitted, denied, time.Since(begin))
	if !tested() {
		t.Errorf("of %v some have admitted or denied nothing", namedRates)
	}
}
