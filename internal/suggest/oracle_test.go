package suggest

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"pgregory.net/rapid"
)

// slowLevels is the highest level of a bucket that admits everything and what one of a
// burst denies, request by request in rational numbers.
func slowLevels(times []int64, rate fastlimit.Rate, burst int64) (need int64, denied uint64) {
	perMicro := big.NewRat(int64(rate.N), int64(rate.Per/time.Microsecond))
	all, bounded, highest := new(big.Rat), new(big.Rat), new(big.Rat)
	last := times[0]
	leak := func(level *big.Rat, micros int64) {
		level.Sub(level, new(big.Rat).Mul(perMicro, big.NewRat(micros, 1)))
		if level.Sign() < 0 {
			level.SetInt64(0)
		}
	}
	one := big.NewRat(1, 1)
	for _, at := range times {
		leak(all, at-last)
		leak(bounded, at-last)
		last = at
		if all.Add(all, one); all.Cmp(highest) > 0 {
			highest.Set(all)
		}
		if after := new(big.Rat).Add(bounded, one); after.Cmp(big.NewRat(burst, 1)) <= 0 {
			bounded = after
		} else {
			denied++
		}
	}
	up := new(big.Int).Add(highest.Num(), new(big.Int).Sub(highest.Denom(), big.NewInt(1)))
	return up.Div(up, highest.Denom()).Int64(), denied
}

func arrivalsOf(times []int64) *arrivals {
	a := new(arrivals)
	for _, at := range times {
		a.add(at)
	}
	return a
}

// Needs and denials are those of an oracle in rational numbers.
func TestLevelsAgainstRationals(t *testing.T) {
	t.Parallel()
	row := rates()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(row).Draw(t, "rate")
		gaps := rapid.SliceOfN(rapid.OneOf(
			rapid.Just(int64(0)), rapid.Map(rapid.Int64Range(0, 5), func(s int64) int64 { return s * second }),
			rapid.Int64Range(0, int64(3*p.unit)), rapid.Int64Range(0, 10),
		), 1, 60).Draw(t, "gaps")
		at, times := int64(0), []int64(nil)
		for _, gap := range gaps {
			at += gap
			times = append(times, at)
		}
		burst := rapid.Int64Range(1, 30).Draw(t, "burst")
		need, denied := slowLevels(times, p.rate, burst)
		a := arrivalsOf(times)
		if got := p.need(a); got != uint64(need) {
			t.Fatalf("%v needs %d at %v, want %d", times, got, p.rate, need)
		}
		if got := p.shed(a, uint64(burst)); got != denied {
			t.Fatalf("%v: burst %d at %v denies %d, want %d", times, burst, p.rate, got, denied)
		}
		// The need is the least burst that denies nothing.
		if p.shed(a, uint64(need)) != 0 || need > 1 && p.shed(a, uint64(need)-1) == 0 {
			t.Fatalf("%v: %d is not what it needs at %v", times, need, p.rate)
		}
	})
}

// What is kept of a client's requests gives back every time.
func TestArrivals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var times []int64
		at := rapid.SampledFrom([]int64{0, 1, 3 * second, 1 << 57}).Draw(t, "first")
		for range rapid.IntRange(1, 50).Draw(t, "n") {
			times = append(times, at)
			at += rapid.SampledFrom([]int64{0, 0, 0, 1, 999_999, second, 64 * second, 3600*second + 7}).Draw(t, "gap")
		}
		a := arrivalsOf(times)
		var got []int64
		r := a.runs()
		for at, n := r.next(); n > 0; at, n = r.next() {
			for range n {
				got = append(got, at)
			}
		}
		if !slices.Equal(got, times) || a.all != uint64(len(times)) {
			t.Fatalf("%v came back as %v", times, got)
		}
	})
}

// A minute of silence and whole seconds take two bytes, a client seen once none.
func TestArrivalsAreSmall(t *testing.T) {
	t.Parallel()
	var a arrivals
	if a.add(1 << 50); a.written != nil {
		t.Error("one request has a buffer")
	}
	a = arrivals{}
	const n = 1000
	for i := range int64(n) {
		a.add(i * 63 * second)
	}
	if len(a.written) > 2*n {
		t.Errorf("%d bytes for %d requests", len(a.written), n)
	}
}

func TestRatesHaveTicksOfAMicrosecond(t *testing.T) {
	t.Parallel()
	row := rates() // newPace panics if one has not
	if len(row) != 5+5+19 {
		t.Errorf("%d rates", len(row))
	}
	for i, p := range row {
		if parsed, err := fastlimit.ParseRate(p.rate.String()); err != nil || parsed != p.rate {
			t.Errorf("%v reads as %v, %v", p.rate, parsed, err)
		}
		if i > 0 && p.unit >= row[i-1].unit {
			t.Errorf("%v does not follow %v", p.rate, row[i-1].rate)
		}
	}
}

// Levels beyond all reason stay at the highest one and do not wrap around.
func TestLevelsSaturate(t *testing.T) {
	t.Parallel()
	p := newPace(fastlimit.Rate{N: 1, Per: time.Hour})
	a := &arrivals{n: 1 << 60, all: 1 << 60, at: 1 << 58}
	if got := p.need(a); got != (maxLevel+p.unit-1)/p.unit {
		t.Errorf("needs %d", got)
	}
	if got := p.shed(a, 10); got != 1<<60-10 {
		t.Errorf("denies %d", got)
	}
	if p.drain(1<<50) <= 0 {
		t.Error("the time to drain overflows")
	}
}

func TestRound(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]uint64{1: 1, 2: 2, 5: 5, 6: 6, 7: 8, 9: 10, 11: 15, 16: 20, 37: 40, 71: 80, 101: 150, 151: 200, 999: 1000, 1001: 1500} {
		if got := round(n); got != want {
			t.Errorf("round(%d) = %d, want %d", n, got, want)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		n := 1 + rnd.Uint64N(1<<rnd.IntN(60)+1)
		if got := round(n); got < n || got > n+n/2+1 {
			t.Fatalf("round(%d) = %d", n, got)
		}
	}
}
