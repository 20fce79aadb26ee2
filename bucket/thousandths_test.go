package bucket_test

import (
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"pgregory.net/rapid"
)

// A bucket in thousandths is the same bucket: T, B·T and a thousandth of T are the same
// times, exactly, and nothing but the scale of costs is another.
func TestInThousandths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		per := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * time.Second, 1001 * time.Microsecond, 13 * time.Microsecond}).Draw(t, "per")
		s, err := bucket.NewShape(rapid.Uint64Range(1, 70_000).Draw(t, "n"), per, rapid.Uint64Range(1, 1<<40).Draw(t, "burst"))
		if err != nil {
			return // a limit that no bucket can have
		}
		m, err := s.InThousandths()
		if err != nil {
			if fits := s.PerMicro()*1000 <= 1<<16 && s.Limit() <= 1<<50; fits {
				t.Fatal(err)
			}
			return
		}
		if m.PerMicro() > 1<<16 || m.Limit() > 1<<60 {
			t.Fatalf("too fine: %+v", m)
		}
		micros := func(s *bucket.Shape, ticks uint64) *big.Rat {
			return new(big.Rat).SetFrac(new(big.Int).SetUint64(ticks), new(big.Int).SetUint64(s.PerMicro()))
		}
		n := rapid.Uint64Range(0, m.MaxCost()).Draw(t, "cost")
		part := new(big.Rat).Mul(micros(&s, s.Unit()), new(big.Rat).SetFrac(new(big.Int).SetUint64(n), big.NewInt(1000)))
		if micros(&m, m.Unit()).Cmp(micros(&s, s.Unit())) != 0 || micros(&m, m.Limit()).Cmp(micros(&s, s.Limit())) != 0 || micros(&m, m.Cost(n)).Cmp(part) != 0 {
			t.Fatalf("%+v is not %+v", m, s)
		}
		if m.Burst() != s.Burst() || m.MaxCost() != 1000*s.Burst() || m.CostScale() != 1000 || m.StoredUnit() != m.Unit() || m.Part()*1000 != m.Unit() || m.Grace() != m.PerMicro()-1 {
			t.Fatalf("%+v", m)
		}
		if m.Fits(0, 0, m.Cost(m.MaxCost()+1)) || !m.Fits(0, 0, m.Cost(m.MaxCost())) {
			t.Fatal("more than the burst fits, or less")
		}
		if tat := m.Cost(n); m.RemainingCost(tat, 0) < m.MaxCost()-n || m.Remaining(tat, 0) != m.RemainingCost(tat, 0)/1000 {
			t.Fatalf("after %d thousandths %d are left, and %d units", n, m.RemainingCost(tat, 0), m.Remaining(tat, 0))
		}
	})
	window, _ := bucket.NewWindow(10, time.Minute)
	if _, err := window.InThousandths(); !errors.Is(err, bucket.ErrInexact) {
		t.Errorf("of a window: %v", err)
	}
}

// A client that conforms by a clock which is not rounded is never denied, and whoever takes
// all there is conforms with [bucket.ClockRounding] more. Where a rate has many ticks to a
// µs, most of the grace that it takes comes with the thousandths: 10^6/s has none without.
func TestGraceOfThousandths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]uint64{3, 1000, 50_000, 1_000_000, 1_500_000, 8_000_000, 64_000_000}).Draw(t, "n")
		burst := rapid.Uint64Range(1, 100).Draw(t, "burst")
		s, err := bucket.NewShape(n, time.Second, burst)
		if err == nil {
			s, err = s.InThousandths()
		}
		if err != nil {
			t.Fatal(err)
		}
		greedy := rapid.Bool().Draw(t, "greedy")
		b := newIdeal(1000*n, time.Second, 1000*burst)
		tick := time.Duration(min(uint64(time.Second)/n, 3000)) // what leaks meanwhile is about a unit, or a part of it
		now, tat := time.Duration(0), uint64(0)
		for range 60 {
			now += rapid.SampledFrom([]time.Duration{tick, 1000}).Draw(t, "scale") * time.Duration(rapid.IntRange(0, 2000).Draw(t, "step")) / 1000
			room := new(big.Rat).Sub(b.burst, b.at(now))
			cost := new(big.Int).Quo(room.Num(), room.Denom()).Uint64()
			if greedy {
				cost = s.RemainingCost(tat, s.Ticks(now))
				if cost < s.MaxCost() && s.Fits(tat, s.Ticks(now), s.Cost(cost+1)) {
					t.Fatalf("%v: more than %d thousandths fit", now, cost)
				}
			} else if rapid.Bool().Draw(t, "less") {
				cost = rapid.Uint64Range(0, cost).Draw(t, "cost")
			}
			if !s.Fits(tat, s.Ticks(now), s.Cost(cost)) {
				t.Fatalf("%v: %d thousandths do not fit, at a level of %v", now, cost, b.level)
			}
			b.add(now, cost)
			tat = bucket.Add(tat, s.Ticks(now), s.Cost(cost))
			if over := b.over(); greedy && over.Cmp(ratU(uint64(bucket.ClockRounding))) >= 0 || !greedy && over.Sign() > 0 {
				t.Fatalf("%v: %v ns above the burst", now, over)
			}
		}
	})
}
