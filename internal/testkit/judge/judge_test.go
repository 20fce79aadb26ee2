package judge

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// A leaky level is that of rational numbers, whatever the order in which requests are seen.
func TestLeakyAgainstRationals(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		rate := limit.Rate{N: 1 + rng.Uint64N(50), Per: time.Duration(1 + rng.Int64N(int64(10*time.Second)))}
		o, level, last, burst := Leaky(rate), new(big.Rat), int64(0), 1+rng.Uint64N(20)
		for range 60 {
			now := last + rng.Int64N(int64(rate.Per)) - int64(rate.Per)/8
			if o.At(time.Duration(now)); now > last {
				level.Sub(level, new(big.Rat).Mul(big.NewRat(int64(rate.N), int64(rate.Per)), big.NewRat(now-last, 1)))
				if level.Sign() < 0 {
					level.SetInt64(0)
				}
				last = now
			}
			n := 1 + rng.Uint64N(5)
			after := new(big.Rat).Add(level, new(big.Rat).SetUint64(n))
			over := after.Cmp(new(big.Rat).SetUint64(burst)) > 0
			if new(big.Rat).SetFrac64(o.Level, o.Per).Cmp(level) != 0 || o.Justified(n, burst) != over || (o.Until(n, burst) > 0) != over {
				t.Fatalf("%v burst %d: level %d of %d, want %v; %d units: denied %v, wait %v", rate, burst, o.Level, o.Per, level, n, o.Justified(n, burst), o.Until(n, burst))
			}
			if !over {
				o.Admit(n)
				level = after
			}
		}
	}
}

// Until is the first nanosecond at which the units fit.
func TestUntil(t *testing.T) {
	t.Parallel()
	o := Leaky(limit.Rate{N: 3, Per: 10})
	o.Admit(7)
	for n := uint64(1); n <= 7; n++ {
		wait := o.Until(n, 7)
		before, then := *o, *o
		before.At(wait - 1)
		if then.At(wait); then.Justified(n, 7) || wait > 0 && !before.Justified(n, 7) {
			t.Errorf("%d units fit after another time than %d", n, wait)
		}
	}
}

// Periods are judged as a count over all requests says.
func TestPeriods(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	const per = 62_500 * time.Microsecond
	type taken struct{ at, n int64 }
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog} {
		o, now, all := Of(limit.RuleConfig{Algorithm: algorithm, Rate: limit.Rate{N: 9, Per: per}}), time.Duration(0), []taken(nil)
		for range 3000 {
			now += time.Duration(rng.Int64N(int64(per)/4)) / time.Microsecond * time.Microsecond
			o.At(now)
			level, begin := int64(0), int64(now)/int64(per)*int64(per)
			for _, x := range all {
				switch {
				case algorithm == limit.SlidingLog && x.at+int64(per) > int64(now), algorithm != limit.SlidingLog && x.at >= begin:
					level += x.n * o.Per
				case algorithm == limit.SlidingWindow && x.at >= begin-int64(per):
					level += x.n * (o.Per - (int64(now)-begin)/int64(per/62_500))
				}
			}
			if o.Level != level {
				t.Fatalf("%v at %v: level %d, want %d", algorithm, now, o.Level, level)
			}
			if n := 1 + rng.Uint64N(3); rng.IntN(2) == 0 {
				o.Admit(n)
				all = append(all, taken{int64(now), int64(n)})
			}
		}
	}
}
