package bucket_test

import (
	"errors"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

const day = 24 * time.Hour

// rates are the shapes of the model tests: slow and fast, with T a whole
// number of µs and not, several units per µs, the bounds.
var rates = []struct {
	n   uint64
	per time.Duration
}{
	{1, day},
	{7, 15 * time.Minute},
	{1, time.Second},
	{3, time.Second},
	{10, time.Minute},
	{100, time.Second},
	{7, time.Second},
	{65_536, time.Second},
	{65_535, time.Second},
	{300_000, time.Second},
	{999_999, 7 * day},
	{1_000_000, time.Second},
	{3_000_000, time.Second},
	{65_536, time.Microsecond * 100},
	{bucket.MaxRate, time.Second},
}

// TestNewShapeIsExact: what is accepted keeps N/P as a fraction, and exactly
// the rates whose numerator in lowest terms, per µs, is at most 2^16 are.
func TestNewShapeIsExact(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	periods := []time.Duration{time.Microsecond, time.Millisecond, time.Second, 15 * time.Minute, time.Minute, time.Hour, day, 366 * day, 7 * time.Microsecond}
	accepted, inexact := 0, 0
	for range 50_000 {
		per := periods[rng.IntN(len(periods))]
		n := 1 + rng.Uint64()>>rng.UintN(64)
		if rng.IntN(2) == 0 { // round numbers, as people write them
			n = (1 + rng.Uint64N(99)) * uint64(math.Pow10(rng.IntN(9)))
		}
		burst := 1 + rng.Uint64N(1000)
		perMicro := new(big.Rat).Quo(ratU(n), ratU(uint64(per/time.Microsecond)))
		perSecond := new(big.Rat).Mul(perMicro, ratU(1e6))
		inRange := perSecond.Cmp(ratU(bucket.MaxRate)) <= 0 && perSecond.Cmp(new(big.Rat).SetFrac64(1, 86400)) >= 0
		s, err := bucket.NewShape(n, per, burst)
		if exact := perMicro.Num().Cmp(big.NewInt(1<<16)) <= 0; (err == nil) != (inRange && exact) {
			t.Fatalf("%d per %v: error %v, want one: %v", n, per, err, !(inRange && exact))
		} else if inRange && errors.Is(err, bucket.ErrInexact) != !exact {
			t.Fatalf("%d per %v: error %v, want ErrInexact: %v", n, per, err, !exact)
		}
		if err != nil {
			inexact++
			continue
		}
		accepted++
		got := new(big.Rat).Quo(ratU(s.PerMicro()), ratU(s.Unit()))
		if got.Cmp(perMicro) != 0 {
			t.Fatalf("%d per %v: %v units per µs, want %v", n, per, got, perMicro)
		}
		if s.Limit() != burst*s.Unit() || s.Grace() != s.PerMicro()-1 || s.Burst() != burst {
			t.Fatalf("%d per %v burst %d: limit %d, grace %d", n, per, burst, s.Limit(), s.Grace())
		}
	}
	if accepted < 5000 || inexact < 5000 {
		t.Errorf("%d rates accepted, %d rejected: this run shows little", accepted, inexact)
	}
}

func TestNewShapeEdges(t *testing.T) {
	t.Parallel()
	const maxLimit = 1 << 60
	for _, tt := range []struct {
		n       uint64
		per     time.Duration
		burst   uint64
		ok      bool
		inexact bool
	}{
		{1, day, 1, true, false},
		{366, 366 * day, 1, true, false},
		{1, day + time.Microsecond, 1, false, false},
		{365, 366 * day, 1, false, false},
		{bucket.MaxRate, time.Second, 1, true, false},
		{bucket.MaxRate + 1, time.Second, 1, false, false},
		{1000, time.Microsecond, 1, true, false},
		{1001, time.Microsecond, 1, false, false},
		{3, time.Second, 1, true, false},
		{7, 15 * time.Minute, 1, true, false},
		{65_536, time.Second, 1, true, false},
		{65_537, time.Second, 1, false, true},
		{65_536, 65_537 * time.Microsecond, 1, true, false},
		{65_537, 65_536 * time.Microsecond, 1, false, true},
		{100_001, time.Second, 1, false, true},
		{300_000, time.Second, 1, true, false},
		{0, time.Second, 1, false, false},
		{1, 0, 1, false, false},
		{1, -time.Second, 1, false, false},
		{1, time.Nanosecond, 1, false, false},
		{1, time.Second + 1, 1, false, false},
		{1, time.Second, 0, false, false},
		{1000, time.Second, maxLimit / 1000, true, false},
		{1000, time.Second, maxLimit/1000 + 1, false, false},
		{1000, time.Second, math.MaxUint64/1000 + 1, false, false}, // times T wraps to 384
		{1000, time.Second, math.MaxUint64, false, false},
		{bucket.MaxRate, time.Second, maxLimit, true, false},
		{bucket.MaxRate, time.Second, maxLimit + 1, false, false},
		{math.MaxUint64, math.MaxInt64, 1, false, false},
		{1, math.MaxInt64, 1, false, false},
	} {
		_, err := bucket.NewShape(tt.n, tt.per, tt.burst)
		if (err == nil) != tt.ok || errors.Is(err, bucket.ErrInexact) != tt.inexact {
			t.Errorf("NewShape(%d, %v, %d): error %v", tt.n, tt.per, tt.burst, err)
		}
	}
}

// bursty returns the next time of a stream that presses a bucket of the given
// T: bursts, gaps near T, and pauses.
func bursty(rng *rand.Rand, now time.Duration, unit float64) time.Duration {
	switch rng.IntN(10) {
	case 0:
		return now + time.Duration(rng.Float64()*unit*10)
	case 1, 2, 3:
		return now
	case 4:
		return now + time.Duration(rng.IntN(3))
	case 5:
		return now.Truncate(time.Microsecond) + time.Duration(rng.IntN(2001))
	}
	return now + time.Duration(unit*(0.9+rng.Float64()*0.2))
}

// TestConformingNeverDenied: a stream that conforms to (r, B) by an ideal
// clock fits, although the bucket reads that clock in whole µs.
func TestConformingNeverDenied(t *testing.T) {
	t.Parallel()
	for i, r := range rates {
		for _, burst := range []uint64{1, 2, 20, 1000} {
			rng := rand.New(rand.NewPCG(uint64(i), burst))
			s := mustShape(t, r.n, r.per, burst)
			oracle := newIdeal(r.n, r.per, burst)
			unit := float64(r.per) / float64(r.n)
			now, tat, admitted := time.Hour, uint64(0), 0
			for range 2000 {
				// Never before now: the bucket's clock does not go back.
				now = max(now, bursty(rng, now, unit))
				n := 1 + rng.Uint64N(min(burst, 5))
				if !oracle.fits(now, n) {
					continue
				}
				ticks, cost := s.Ticks(now), s.Cost(n)
				if !s.Fits(tat, ticks, cost) {
					t.Fatalf("%d per %v burst %d: %d units at %v denied at level %d of %d, and conform",
						r.n, r.per, burst, n, now, bucket.Level(tat, ticks), s.Limit())
				}
				tat = bucket.Add(tat, ticks, cost)
				oracle.add(now, n)
				admitted++
			}
			if admitted < 100 {
				t.Errorf("%d per %v burst %d: %d requests admitted: this run shows little", r.n, r.per, burst, admitted)
			}
		}
	}
}

// TestExcessBelowOneTick: what is admitted exceeds (r, B) by less than 1 µs
// of leakage by the bucket's own clock, and so by less than 2 µs by an ideal
// one.
func TestExcessBelowOneTick(t *testing.T) {
	t.Parallel()
	limit := map[string]*big.Rat{"own": ratU(1000), "ideal": ratU(2000)}
	for i, r := range rates {
		for _, burst := range []uint64{1, 2, 20, 1000} {
			rng := rand.New(rand.NewPCG(uint64(i), burst))
			s := mustShape(t, r.n, r.per, burst)
			unit := float64(r.per) / float64(r.n)
			clocks := map[string]*ideal{"own": newIdeal(r.n, r.per, burst), "ideal": newIdeal(r.n, r.per, burst)}
			now, tat, denied := time.Hour, uint64(0), 0
			for range 2000 {
				now = max(now, bursty(rng, now, unit))
				n := 1 + rng.Uint64N(min(burst, 5))
				ticks, cost := s.Ticks(now), s.Cost(n)
				if !s.Fits(tat, ticks, cost) {
					denied++
					if wait := s.RetryAfter(tat, ticks, cost); rng.IntN(2) == 0 && wait < time.Hour {
						now += wait // as early as it may be
					}
					continue
				}
				tat = bucket.Add(tat, ticks, cost)
				for name, oracle := range clocks {
					at := now
					if name == "own" {
						at = now.Truncate(time.Microsecond)
					}
					oracle.add(at, n)
					if over := oracle.over(); over.Cmp(limit[name]) >= 0 {
						t.Fatalf("%d per %v burst %d, %s clock: admitted %v ns beyond the burst", r.n, r.per, burst, name, over.FloatString(1))
					}
				}
			}
			if denied == 0 && unit >= 100 {
				t.Errorf("%d per %v burst %d: nothing denied: this run shows little", r.n, r.per, burst)
			}
		}
	}
}

// TestWholeMicrosNeedNoGrace: with T a whole number of µs the admitted stream
// conforms exactly, and a burst is B and not one more.
func TestWholeMicrosNeedNoGrace(t *testing.T) {
	t.Parallel()
	for _, burst := range []uint64{1, 5, 200} {
		s := mustShape(t, 100, time.Second, burst)
		tat, admitted := uint64(0), uint64(0)
		for range burst + 10 {
			if s.Fits(tat, 77, s.Cost(1)) {
				tat = bucket.Add(tat, 77, s.Cost(1))
				admitted++
			}
		}
		if admitted != burst || s.Grace() != 0 {
			t.Errorf("burst %d: %d admitted at once, grace %d", burst, admitted, s.Grace())
		}
		if wait := s.RetryAfter(tat, 77, s.Cost(1)); wait != 10*time.Millisecond {
			t.Errorf("burst %d at 100/s: retry after %v, want 10ms", burst, wait)
		}
	}
}

// TestNothingOverflows: at the bounds of rate, burst and time nothing wraps
// round into a free request.
func TestNothingOverflows(t *testing.T) {
	t.Parallel()
	const maxLimit, maxNow = 1 << 60, 1<<63 - 1
	for _, r := range rates {
		probe := mustShape(t, r.n, r.per, 1)
		burst := uint64(maxLimit) / probe.Unit()
		s := mustShape(t, r.n, r.per, burst)
		for _, now := range []uint64{0, 1, 1 << 62, maxNow} {
			full := now + s.Limit() + s.Grace()
			for _, n := range []uint64{1, burst, burst + 1, burst * 2, math.MaxUint64/s.Unit() + 2, math.MaxUint64} {
				if s.Fits(full, now, s.Cost(n)) {
					t.Errorf("%d per %v: %d units fit a full bucket at %d", r.n, r.per, n, now)
				}
				if got, want := s.Fits(0, now, s.Cost(n)), n <= burst; got != want {
					t.Errorf("%d per %v: %d units in an empty bucket of %d: Fits = %v", r.n, r.per, n, burst, got)
				}
				if n > burst && s.RetryAfter(0, now, s.Cost(n)) != bucket.Never {
					t.Errorf("%d per %v: %d units are not refused for good", r.n, r.per, n)
				}
			}
			// Clocks that disagree by all of time deny, and say when.
			if s.Fits(maxNow, 0, s.Cost(1)) || s.RetryAfter(maxNow, 0, s.Cost(1)) <= 0 {
				t.Errorf("%d per %v: a request at 0 fits a bucket that is busy for ever", r.n, r.per)
			}
		}
	}
	slow := mustShape(t, 1, time.Microsecond, 1)
	if got := slow.Duration(math.MaxUint64); got != bucket.Never {
		t.Errorf("Duration of all ticks = %v, want Never", got)
	}
	if got := slow.Duration(math.MaxInt64 / 1000); got != math.MaxInt64/1000*time.Microsecond {
		t.Errorf("Duration = %v, want the longest whole µs", got)
	}
}

// TestZeroShape: the zero value admits nothing and divides by nothing.
func TestZeroShape(t *testing.T) {
	t.Parallel()
	var s bucket.Shape
	for _, n := range []uint64{1, 2, math.MaxUint64} {
		if cost := s.Cost(n); s.Fits(0, 0, cost) || s.RetryAfter(0, 0, cost) != bucket.Never {
			t.Errorf("a zero bucket takes %d units", n)
		}
	}
	if s.Ticks(time.Hour) != 0 || s.Remaining(0, 0) != 0 || s.TimeToEmpty(5, 0) != 5*time.Microsecond || s.Burst() != 0 {
		t.Error("a zero bucket is not empty")
	}
	tb, err := bucket.NewTable(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := tb.Take(bucketDigest(1, 1), 1, s.Cost(1)); ok {
		t.Error("a table of zero buckets admits")
	}
}

// TestTicksAndDuration: Ticks rounds down, Duration rounds up.
func TestTicksAndDuration(t *testing.T) {
	t.Parallel()
	for _, r := range rates {
		s := mustShape(t, r.n, r.per, 1)
		for _, d := range []time.Duration{0, 1, 999, 1000, 1001, time.Second - 1, time.Hour + 1999} {
			if got, want := s.Ticks(d), uint64(d/1000)*s.PerMicro(); got != want {
				t.Errorf("Ticks(%v) = %d, want %d", d, got, want)
			}
		}
		for _, ticks := range []uint64{0, 1, s.PerMicro() - 1, s.PerMicro(), s.PerMicro() + 1, 1 << 40} {
			d := s.Duration(ticks)
			if s.Ticks(d) < ticks || d > 0 && s.Ticks(d-time.Microsecond) >= ticks {
				t.Errorf("Duration(%d) = %v at %d ticks per µs", ticks, d, s.PerMicro())
			}
		}
	}
}

// TestLastTime: for every number of ticks in a µs the last time converts
// exactly, and leaves room for the largest levels; the next µs does not.
func TestLastTime(t *testing.T) {
	t.Parallel()
	const prime = 1_000_003 * time.Microsecond // longer than any num, so nothing cancels
	for num := uint64(1); num <= 1<<16; num++ {
		s, err := bucket.NewShape(num, prime, 1)
		if err != nil || s.PerMicro() != num {
			t.Fatalf("num %d: %d ticks per µs, error %v", num, s.PerMicro(), err)
		}
		last := s.LastTime()
		hi, want := bits.Mul64(uint64(last/time.Microsecond), num)
		if got := s.Ticks(last); hi != 0 || got != want || got > math.MaxInt64 {
			t.Fatalf("num %d: %v is %d ticks, want %d and 63 bits", num, last, got, want)
		}
		if hi, next := bits.Mul64(uint64(last/time.Microsecond)+1, num); last < math.MaxInt64 && hi == 0 && next <= math.MaxInt64 {
			t.Fatalf("num %d: the last time %v could be later", num, last)
		}
		if tat := bucket.Add(s.Ticks(last), s.Ticks(last), 1<<62); bucket.Level(tat, s.Ticks(last)) != 1<<62 {
			t.Fatalf("num %d: no room for a level at %v", num, last)
		}
	}
	var zero bucket.Shape
	if zero.LastTime() != math.MaxInt64 {
		t.Error("the zero shape counts nothing, and so for ever")
	}
}
