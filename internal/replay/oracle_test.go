package replay

import (
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
)

// The oracle is checked against one that is plainer still: rational numbers.
func TestExactAgainstRationals(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		c := fastlimit.RuleConfig{
			Name:  "r",
			Rate:  fastlimit.Rate{N: 1 + rnd.Uint64N(100), Per: time.Duration(1+rnd.IntN(5000)) * time.Second},
			Burst: 1 + rnd.Uint64N(30),
		}
		e, err := newExact(bucket.LeakyBucket, c)
		if err != nil {
			t.Fatal(err)
		}
		rate := big.NewRat(int64(c.Rate.N), int64(c.Rate.Per/time.Second))
		burst := new(big.Rat).SetUint64(c.Burst)
		level, want := tally{}, new(big.Rat)
		for range 50 {
			seconds := rnd.Int64N(200)
			e.advance(&level, 0, seconds*second)
			want.Sub(want, new(big.Rat).Mul(rate, big.NewRat(seconds, 1)))
			if want.Sign() < 0 {
				want.SetInt64(0)
			}
			cost := rnd.Uint64N(c.Burst) + 1
			after := new(big.Rat).Add(want, new(big.Rat).SetUint64(cost))
			fits := after.Cmp(burst) <= 0
			if e.fits(&level, 0, cost) != fits {
				t.Fatalf("%v burst %d: level %v, cost %d: fits %v, want %v", c.Rate, c.Burst, want, cost, !fits, fits)
			}
			if fits {
				e.add(&level, 0, cost)
				want = after
			}
		}
	}
}

// taken is a request of the plainest oracle of windows and logs.
type taken struct {
	at    int64
	units uint64
}

// plainLevel is what counts of all requests so far, in units, by going through them:
// nothing is carried from one to the next.
func plainLevel(algorithm bucket.Algorithm, all []taken, period, at int64) *big.Rat {
	level := new(big.Rat)
	for _, r := range all {
		weight := new(big.Rat)
		switch begin := at - at%period; {
		case algorithm == bucket.SlidingLog && at < r.at+period, algorithm != bucket.SlidingLog && r.at >= begin:
			weight.SetInt64(1)
		case algorithm == bucket.SlidingWindow && r.at >= begin-period:
			// What is left of the period, in whole 62,500ths rounded up.
			left := new(big.Int).Mul(big.NewInt(period-(at-begin)), big.NewInt(62_500))
			left.Add(left, big.NewInt(period-1))
			weight.SetFrac(left.Div(left, big.NewInt(period)), big.NewInt(62_500))
		}
		level.Add(level, weight.Mul(weight, new(big.Rat).SetUint64(r.units)))
	}
	return level
}

// The oracle of windows and logs is checked against one that goes through all requests
// each time, in rational numbers: gaps of parts of a step to several periods, costs, and
// times on the edges.
func TestPeriodsAgainstRationals(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(22, 14))
	for _, algorithm := range []bucket.Algorithm{bucket.FixedWindow, bucket.SlidingWindow, bucket.SlidingLog} {
		admitted, denied := 0, 0
		for range 60 {
			c := fastlimit.RuleConfig{Name: "r", Rate: fastlimit.Rate{N: 1 + rnd.Uint64N(40), Per: time.Duration(1+rnd.IntN(100)) * time.Second}}
			e, err := newExact(algorithm, c)
			if err != nil {
				t.Fatal(err)
			}
			period := c.Rate.Per.Microseconds()
			limit := new(big.Rat).SetUint64(c.Rate.N)
			var all []taken
			var counted tally
			at, last := 1_700_000_000*second, int64(0)
			for range 100 {
				switch rnd.IntN(4) {
				case 0: // at once
				case 1:
					at += rnd.Int64N(2 * period / int64(c.Rate.N))
				case 2:
					at += period - at%period - rnd.Int64N(2) // an edge, and just before it
				case 3:
					at += rnd.Int64N(period)
				}
				if rnd.IntN(30) == 0 {
					at += rnd.Int64N(3 * period)
				}
				e.advance(&counted, last, at)
				last = at
				cost := 1 + rnd.Uint64N(max(1, c.Rate.N/3))
				level := plainLevel(algorithm, all, period, at)
				after := new(big.Rat).Add(level, new(big.Rat).SetUint64(cost))
				fits := after.Cmp(limit) <= 0
				if got := e.fits(&counted, at, cost); got != fits {
					t.Fatalf("%v of %v at %d: level %v, cost %d: fits %v, want %v", algorithm, c.Rate, at%period, level, cost, got, fits)
				}
				if fits || rnd.IntN(8) == 0 { // the limiter may admit more than fits
					all = append(all, taken{at, cost})
					e.add(&counted, at, cost)
					over, _ := new(big.Rat).Sub(after, limit).Float64()
					if got := e.excess(&counted, at); got < max(over, 0)-1e-6 || got > max(over, 0)+1e-6 {
						t.Fatalf("%v: excess %v, want %v", algorithm, got, over)
					}
				}
				if fits {
					admitted++
				} else {
					denied++
				}
			}
		}
		if admitted < 500 || denied < 500 {
			t.Errorf("%v: only %d admitted and %d denied", algorithm, admitted, denied)
		}
	}
}

func TestExactBounds(t *testing.T) {
	t.Parallel()
	e, err := newExact(bucket.LeakyBucket, fastlimit.RuleConfig{Rate: fastlimit.Rate{N: 1 << 40, Per: time.Second}, Burst: 5})
	if err != nil || e.leak(1<<62, 1<<40) != 0 {
		t.Errorf("a long silence at a high rate does not drain: %v", err)
	}
	if _, err := newExact(bucket.LeakyBucket, fastlimit.RuleConfig{Rate: fastlimit.Rate{N: 1, Per: time.Microsecond / 2}, Burst: 5}); err == nil {
		t.Error("a period below the resolution is accepted")
	}
	if _, err := newExact(bucket.LeakyBucket, fastlimit.RuleConfig{Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 1 << 60}); err == nil {
		t.Error("a burst that overflows is accepted")
	}
	if _, err := newExact(bucket.SlidingWindow, fastlimit.RuleConfig{Rate: fastlimit.Rate{N: 1 << 50, Per: time.Hour}}); err == nil {
		t.Error("a sliding window that overflows is accepted")
	}
}

func TestAccount(t *testing.T) {
	t.Parallel()
	e, err := newExact(bucket.LeakyBucket, fastlimit.RuleConfig{Rate: fastlimit.Rate{N: 1, Per: 10 * time.Second}, Burst: 2})
	if err != nil {
		t.Fatal(err)
	}
	var a account
	for i, s := range []struct {
		at     int64
		v      verdict
		excess float64
		wrong  int // false denials so far
		exact  int // denials by the bucket of its own so far
	}{
		{0, deniedElsewhere, 0, 0, 0},
		{0, admitted, 0, 0, 0},
		{0, admitted, 0, 0, 0},
		{0, admitted, 1, 0, 1},
		{10, deniedHere, 0, 0, 1}, // level 2: does not fit; the other bucket has room
		{20, deniedHere, 0, 1, 1}, // level 1: would have fitted
	} {
		a.advance(&e, s.at*second)
		if got := a.judge(&e, 1, s.v); got != s.excess || a.falseDenied != s.wrong || a.exactDenied != s.exact {
			t.Errorf("step %d: excess %v, %d false denials, %d exact; want %+v", i, got, a.falseDenied, a.exactDenied, s)
		}
	}
	if a.requests != 6 || a.denied != 2 {
		t.Errorf("%d requests, %d denied", a.requests, a.denied)
	}
}

// Denials count where they are to: until a period is full, and no further. What they
// leave weighs in the next one.
func TestAccountOfDenials(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []bucket.Algorithm{bucket.FixedWindow, bucket.SlidingWindow} {
		e, err := newExact(algorithm, fastlimit.RuleConfig{Rate: fastlimit.Rate{N: 4, Per: 10 * time.Second}, CountDenied: true})
		if err != nil {
			t.Fatal(err)
		}
		var a account
		sliding := algorithm == bucket.SlidingWindow
		for i, s := range []struct {
			at   int64
			cost uint64
			v    verdict
			// Of the fixed and of the sliding window: whether the denial was false, and
			// whether a window by itself denies.
			wrong, exact [2]bool
		}{
			{at: 100, cost: 2, v: admitted},
			{at: 101, cost: 3, v: deniedHere, exact: [2]bool{true, true}},                               // counts 2: the window is full
			{at: 102, cost: 1, v: deniedHere, exact: [2]bool{true, true}},                               // and takes no more
			{at: 110, cost: 1, v: deniedHere, wrong: [2]bool{true, false}, exact: [2]bool{false, true}}, // all of the 4 weigh
			{at: 115, cost: 1, v: admitted},                                                             // 2 of them, and the denial before
			{at: 120, cost: 4, v: deniedHere, wrong: [2]bool{true, false}, exact: [2]bool{false, true}},
		} {
			a.advance(&e, s.at*second)
			wrong, exact := a.falseDenied, a.exactDenied
			a.judge(&e, s.cost, s.v)
			k := 0
			if sliding {
				k = 1
			}
			if (a.falseDenied > wrong) != s.wrong[k] || (a.exactDenied > exact) != s.exact[k] {
				t.Errorf("%v, step %d: false %v, denied by itself %v; want %v, %v", algorithm, i, a.falseDenied > wrong, a.exactDenied > exact, s.wrong[k], s.exact[k])
			}
		}
	}
}

// The oracle refuses to judge by an algorithm that it does not know.
func TestUnknownAlgorithm(t *testing.T) {
	t.Parallel()
	c := fastlimit.RuleConfig{Name: "gcra", Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 5}
	if _, err := newExact(bucket.NumAlgorithms, c); err == nil || !strings.Contains(err.Error(), `rule "gcra": replay cannot check its algorithm`) {
		t.Errorf("got %v", err)
	}
}

// Whoever adds a field to a rule, such as its algorithm, decides here whether the
// oracle has to know it.
func TestOracleKnowsRules(t *testing.T) {
	t.Parallel()
	known := []string{
		"Name", "Rate", "Algorithm", "CountDenied", "Burst", "Cost", "Mode", "EscalateAt", "Strict", "OnFailure", "KeyKind", "Tiers", "IPv4Prefix", "IPv6Prefix", "Thousandths",
		"Ban",     // see banBook
		"MaxRate", // a log names no rates, and at the rule's own it counts as before
		"MaxWait", // nobody waits where the clock is a ManualClock
	}
	for f := range reflect.TypeFor[fastlimit.RuleConfig]().Fields() {
		if !slices.Contains(known, f.Name) {
			t.Errorf("does the oracle decide as a rule with %s does? If not, newExact must refuse it", f.Name)
		}
	}
}
