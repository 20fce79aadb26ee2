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
		level, want := uint64(0), new(big.Rat)
		for range 50 {
			seconds := rnd.Int64N(200)
			level = e.leak(level, seconds*second)
			want.Sub(want, new(big.Rat).Mul(rate, big.NewRat(seconds, 1)))
			if want.Sign() < 0 {
				want.SetInt64(0)
			}
			cost := rnd.Uint64N(c.Burst) + 1
			after := new(big.Rat).Add(want, new(big.Rat).SetUint64(cost))
			fits := after.Cmp(burst) <= 0
			if e.fits(level, cost) != fits {
				t.Fatalf("%v burst %d: level %v, cost %d: fits %v, want %v", c.Rate, c.Burst, want, cost, !fits, fits)
			}
			if fits {
				level += cost * e.per
				want = after
			}
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
	known := []string{"Name", "Rate", "Algorithm", "CountDenied", "Burst", "Cost", "Mode", "EscalateAt", "Strict", "OnFailure", "KeyKind", "IPv4Prefix", "IPv6Prefix"}
	for f := range reflect.TypeFor[fastlimit.RuleConfig]().Fields() {
		if !slices.Contains(known, f.Name) {
			t.Errorf("does the oracle decide as a rule with %s does? If not, newExact must refuse it", f.Name)
		}
	}
}
