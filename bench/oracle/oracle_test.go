package oracle

import (
	"math"
	"math/big"
	"math/rand/v2"
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
			o, err := New(rule, clients, steps)
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
				o.JudgeWithin(uint32(c), at, at, allowed)
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
	o, err := New(Rule{fastlimit.Rate{N: 10, Per: time.Second}, 2}, 2, 100)
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
		if o.JudgeWithin(s.client, s.at, s.at, s.allowed); o.Verdict() != s.want {
			t.Fatalf("client %d at %v: got %+v, want %+v", s.client, s.at, o.Verdict(), s.want)
		}
	}
}

// TestOracleBenefitOfTheDoubt: of a decision between two readings of the clock,
// a denial is judged by the earlier one, and an admission is charged from the
// later one on. 1/s, burst 1.
func TestOracleBenefitOfTheDoubt(t *testing.T) {
	t.Parallel()
	o, err := New(Rule{fastlimit.Rate{N: 1, Per: time.Second}, 1}, 1, 100)
	if err != nil {
		t.Fatal(err)
	}
	const ms = time.Millisecond
	for i, s := range []struct {
		at, until time.Duration
		allowed   bool
		want      Verdict
	}{
		{0, 1000, true, Verdict{Requests: 1}},
		{1000, 1500, false, Verdict{Requests: 2, Denied: 1}},                                    // full at its begin
		{1500, 2000, true, Verdict{Requests: 3, Denied: 1}},                                     // leaked 1 by its end
		{2999, 3500, false, Verdict{Requests: 4, Denied: 2}},                                    // 0.001 left, had it been late
		{3500, 3600, false, Verdict{Requests: 5, Denied: 3, FalseDenials: 1}},                   // empty at any rate
		{3600, 3900, true, Verdict{Requests: 6, Denied: 3, FalseDenials: 1}},                    //
		{4000, 4200, true, Verdict{Requests: 7, Denied: 3, FalseDenials: 1, Excess: 0.4}},       // 1 at 3.6 s or later
		{4300, 4300, true, Verdict{Requests: 8, Denied: 3, FalseDenials: 1, Excess: 0.4 + 0.9}}, // 1.6 at 4 s or later
	} {
		o.JudgeWithin(0, s.at*ms, s.until*ms, s.allowed)
		got := o.Verdict()
		got.ConformingDenied, got.DeniedExactly = 0, 0
		if math.Abs(got.Excess-s.want.Excess) < 1e-12 {
			got.Excess = s.want.Excess
		}
		if got != s.want {
			t.Errorf("step %d: %+v, want %+v", i, got, s.want)
		}
	}
}

// TestOracleNeverAccusesFalsely: judged by spans around the true moments of
// decision, with some answers lost, no client looks worse than judged by the
// moments themselves; with spans of no length it looks the same.
func TestOracleNeverAccusesFalsely(t *testing.T) {
	t.Parallel()
	rule := Rule{fastlimit.Rate{N: 10, Per: time.Second}, 5}
	seen := Verdict{}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		width := []float64{0, 1e6, 1e8, 1e9}[seed%4]
		truth, err := New(rule, 1, 1000)
		if err != nil {
			t.Fatal(err)
		}
		guess, _ := New(rule, 1, 1000)
		lost, at := int64(0), time.Duration(0)
		for range 300 {
			from := at + time.Duration(rng.ExpFloat64()*4e7)
			moment := from + time.Duration(rng.Float64()*width)
			at = moment + time.Duration(rng.Float64()*width)
			allowed := rng.IntN(2) > 0
			truth.JudgeWithin(0, moment, moment, allowed)
			if width > 0 && allowed && rng.IntN(20) == 0 {
				guess.Lose(0, at)
				lost++
				continue
			}
			guess.JudgeWithin(0, from, at, allowed)
		}
		want, got := truth.Verdict(), guess.Verdict()
		if got.Requests != want.Requests-lost || got.Denied != want.Denied {
			t.Fatalf("seed %d: %+v, want %+v less %d", seed, got, want, lost)
		}
		if got.FalseDenials > want.FalseDenials || got.ConformingDenied > want.ConformingDenied || got.Excess > want.Excess {
			t.Errorf("seed %d: accused of %+v, guilty of %+v", seed, got, want)
		}
		if width == 0 && got != want {
			t.Errorf("seed %d: %+v, want %+v", seed, got, want)
		}
		seen.Add(got)
	}
	if seen.FalseDenials == 0 || seen.ConformingDenied == 0 || seen.Excess == 0 {
		t.Errorf("the streams do not test everything: %+v", seen)
	}
}

func TestVerdictAdd(t *testing.T) {
	t.Parallel()
	v := Verdict{1, 2, 3, 4, 5, 6}
	v.Add(Verdict{10, 20, 30, 40, 50, 5})
	v.Add(Verdict{Excess: 7})
	if want := (Verdict{11, 22, 33, 44, 55, 7}); v != want { // the excess is that of the worst client
		t.Errorf("%+v, want %+v", v, want)
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
		if _, err := New(c.rule, 1, c.requests); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %d requests: error %v, want one with %q", c.rule, c.requests, err, c.want)
		}
	}
}
