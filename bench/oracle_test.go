package bench

import (
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// rational is the oracle in rational arithmetic, level in units, as the
// definition has it: max(0, level - r·dt).
type rational struct {
	rate, burst     *big.Rat
	at              time.Duration
	admitted, alone *big.Rat
	offered         *big.Rat
}

func newRational(r Rule) *rational {
	return &rational{
		rate:  new(big.Rat).SetFrac(new(big.Int).SetUint64(r.Rate.N), big.NewInt(int64(r.Rate.Per))),
		burst: new(big.Rat).SetInt(new(big.Int).SetUint64(r.Burst)), admitted: new(big.Rat), alone: new(big.Rat), offered: new(big.Rat),
	}
}

func (o *rational) leak(level *big.Rat, dt time.Duration) *big.Rat {
	out := new(big.Rat).Mul(o.rate, new(big.Rat).SetInt64(int64(dt)))
	if level.Cmp(out) <= 0 {
		return new(big.Rat)
	}
	return new(big.Rat).Sub(level, out)
}

// judge returns whether this request is a false denial, one of a conforming
// client, and one that the bucket alone would deny, and its excess.
func (o *rational) judge(at time.Duration, allowed bool) (falsely, conforming, exactly bool, excess *big.Rat) {
	one := big.NewRat(1, 1)
	o.admitted, o.alone = o.leak(o.admitted, at-o.at), o.leak(o.alone, at-o.at)
	o.offered = new(big.Rat).Add(o.leak(o.offered, at-o.at), one)
	o.at = at
	more := new(big.Rat).Add(o.admitted, one)
	excess = new(big.Rat)
	if allowed {
		o.admitted = more
		if d := new(big.Rat).Sub(more, o.burst); d.Sign() > 0 {
			excess = d
		}
	} else {
		falsely, conforming = more.Cmp(o.burst) <= 0, o.offered.Cmp(o.burst) <= 0
	}
	if next := new(big.Rat).Add(o.alone, one); next.Cmp(o.burst) <= 0 {
		o.alone = next
	} else {
		exactly = true
	}
	return falsely, conforming, exactly, excess
}

// TestOracleAgainstRationals: every verdict of the oracle is that of rational
// arithmetic, at rates that whole nanoseconds cannot express.
func TestOracleAgainstRationals(t *testing.T) {
	t.Parallel()
	rules := []Rule{
		{fastlimit.Rate{N: 100, Per: time.Second}, 200},
		{fastlimit.Rate{N: 7, Per: time.Minute}, 3},
		{fastlimit.Rate{N: 1, Per: 24 * time.Hour}, 12},
		{fastlimit.Rate{N: 300_000, Per: time.Second}, 1},
		{fastlimit.Rate{N: 999_999_937, Per: 1_000_000_007}, 50},
		{fastlimit.Rate{N: 1_000_000_000, Per: time.Second}, 200},
	}
	for i, rule := range rules {
		t.Run(rule.String(), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			unit := float64(rule.Rate.Per) / float64(rule.Rate.N)
			const clients, steps = 3, 15_000
			o, err := NewOracle(rule, clients, steps)
			if err != nil {
				t.Fatal(err)
			}
			truth := make([]*rational, clients)
			for c := range truth {
				truth[c] = newRational(rule)
			}
			var want Verdict
			var at time.Duration
			for range steps {
				if rng.IntN(1000) == 0 {
					at += time.Duration(rng.Float64() * unit * 1000)
				} else {
					at += time.Duration(rng.Float64() * unit / clients / 3)
				}
				c, allowed := rng.IntN(clients), rng.IntN(3) > 0
				o.Judge(uint32(c), at, allowed)
				falsely, conforming, exactly, excess := truth[c].judge(at, allowed)
				want.Requests++
				want.Denied += one(!allowed)
				want.FalseDenials += one(falsely)
				want.ConformingDenied += one(conforming)
				want.DeniedExactly += one(exactly)
				f, _ := excess.Float64()
				want.Excess = max(want.Excess, f)
				got := o.Verdict()
				if math.Abs(got.Excess-want.Excess) <= 1e-15*want.Excess {
					got.Excess = want.Excess // rounded once more
				}
				if got != want {
					t.Fatalf("at %v: got %+v, want %+v", at, got, want)
				}
			}
			if want.FalseDenials == 0 || want.ConformingDenied == 0 || want.ConformingDenied == want.FalseDenials || want.DeniedExactly == 0 || want.Excess == 0 {
				t.Errorf("the stream does not test everything: %+v", want)
			}
		})
	}
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// TestOracleSteps is the definition by hand: 10/s, burst 2.
func TestOracleSteps(t *testing.T) {
	t.Parallel()
	o, err := NewOracle(Rule{fastlimit.Rate{N: 10, Per: time.Second}, 2}, 2, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		client  uint32
		at      time.Duration
		allowed bool
		want    Verdict
	}{
		{0, 0, true, Verdict{1, 0, 0, 0, 0, 0}},
		{0, 0, true, Verdict{2, 0, 0, 0, 0, 0}},
		{0, 0, false, Verdict{3, 1, 0, 0, 1, 0}},                                      // full
		{1, 0, false, Verdict{4, 2, 1, 1, 1, 0}},                                      // empty: a false denial
		{0, 100*time.Millisecond - 1, false, Verdict{5, 3, 1, 1, 2, 0}},               // a nanosecond short
		{0, 100 * time.Millisecond, false, Verdict{6, 4, 2, 1, 2, 0}},                 // exactly room for one
		{0, 100 * time.Millisecond, true, Verdict{7, 4, 2, 1, 3, 0}},                  // alone took it before
		{0, 100 * time.Millisecond, true, Verdict{8, 4, 2, 1, 4, 1}},                  // one too many
		{0, 100 * time.Hour, true, Verdict{9, 4, 2, 1, 4, 1}},                         // drained
		{0, 100*time.Hour + 50*time.Millisecond, true, Verdict{10, 4, 2, 1, 4, 1}},    // 0.5 + 1
		{0, 100*time.Hour + 50*time.Millisecond, false, Verdict{11, 5, 2, 1, 5, 1}},   // 1.5 + 1 > 2
		{0, 100*time.Hour + 99*time.Millisecond, true, Verdict{12, 5, 2, 1, 6, 1}},    // excess 0.01 < 1
		{1, 200 * time.Hour, true, Verdict{13, 5, 2, 1, 6, 1}},                        // others are not touched
		{0, 100*time.Hour + 200*time.Millisecond, false, Verdict{14, 6, 3, 1, 6, 1}},  // 2.01 - 1.01 + 1 = 2
		{0, 100*time.Hour + 1200*time.Millisecond, false, Verdict{15, 7, 4, 2, 6, 1}}, // empty
	} {
		if o.Judge(s.client, s.at, s.allowed); o.Verdict() != s.want {
			t.Fatalf("client %d at %v: got %+v, want %+v", s.client, s.at, o.Verdict(), s.want)
		}
	}
}

// TestOracleBenefitOfTheDoubt: where the limiter reads the clock itself, an
// admission counts from the later of two readings and a denial from the
// earlier. 1/s, burst 1.
func TestOracleBenefitOfTheDoubt(t *testing.T) {
	t.Parallel()
	o, err := NewOracle(Rule{fastlimit.Rate{N: 1, Per: time.Second}, 1}, 1, 100)
	if err != nil {
		t.Fatal(err)
	}
	var later time.Duration
	elapsed := func() time.Duration { return later }
	observe := func(at, until time.Duration, allowed bool) {
		later = until
		answer := broken(func(netip.Addr, time.Duration) bool { return allowed })
		o.Observe(answer, 0, netip.Addr{}, at, elapsed)
	}
	observe(0, time.Second, true)                // charged at 1 s
	observe(time.Second, 2*time.Second, false)   // full at 1 s, empty at 2 s
	observe(time.Second, 2*time.Second, true)    // full at 1 s, empty at 2 s
	observe(2999*time.Millisecond, 1<<40, false) // not quite empty
	if v := o.Verdict(); v.FalseDenials != 0 || v.Excess != 0 || v.Denied != 2 {
		t.Errorf("%+v", v)
	}
	if observe(3*time.Second, 1<<40, false); o.Verdict().FalseDenials != 1 {
		t.Errorf("%+v", o.Verdict())
	}
}

func TestOracleRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule     Rule
		requests int64
		want     string
	}{
		{Rule{Burst: 1}, 1, "rate"},
		{Rule{fastlimit.Rate{N: 1, Per: 24 * time.Hour}, 1 << 40}, 1, "does not fit"},
		{Rule{fastlimit.Rate{N: 1, Per: 24 * time.Hour}, 1}, 1 << 40, "does not fit"},
	} {
		if _, err := NewOracle(c.rule, 1, c.requests); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %d requests: error %v, want one with %q", c.rule, c.requests, err, c.want)
		}
	}
}
