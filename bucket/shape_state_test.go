package bucket_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// checkState holds every derived quantity of a bucket in one state to its
// definition.
func checkState(s *bucket.Shape, tat, now, n uint64) error {
	cost := s.Cost(n)
	level := new(big.Int)
	if tat > now {
		level.SetUint64(tat - now)
	}
	room := new(big.Int).SetUint64(s.Limit() + s.Grace())
	units := new(big.Int).Mul(new(big.Int).SetUint64(n), new(big.Int).SetUint64(s.Unit()))
	fits := n <= s.Burst() && new(big.Int).Add(level, units).Cmp(room) <= 0
	if got := s.Fits(tat, now, cost); got != fits {
		return fmt.Errorf("Fits(%d, %d, %d units) = %v", tat, now, n, got)
	}
	if got := bucket.Level(tat, now); level.Cmp(new(big.Int).SetUint64(got)) != 0 {
		return fmt.Errorf("Level(%d, %d) = %d, want %v", tat, now, got, level)
	}
	full := bucket.Add(tat, now, cost)
	if got, want := bucket.Level(full, now), bucket.Level(tat, now)+cost; got != want {
		return fmt.Errorf("level %d after Add, want %d", got, want)
	}
	if got := bucket.Sub(full, now, cost); bucket.Level(got, now) != bucket.Level(tat, now) {
		return fmt.Errorf("Add and Sub of %d take TAT %d at %d to %d", cost, tat, now, got)
	}
	back := bucket.Sub(tat, now, cost)
	if got, want := bucket.Level(back, now), bucket.Level(tat, now)-min(cost, bucket.Level(tat, now)); got != want || back < min(tat, now) || back > tat {
		return fmt.Errorf("Sub(%d, %d, %d) = %d: level %d, want %d", tat, now, cost, back, got, want)
	}
	left := s.Remaining(tat, now)
	if left > s.Burst() || left > 0 && !s.Fits(tat, now, s.Cost(left)) || s.Fits(tat, now, s.Cost(left+1)) {
		return fmt.Errorf("Remaining(%d, %d) = %d, and that many do not fit or more do", tat, now, left)
	}
	return checkWaits(s, tat, now, n)
}

func checkWaits(s *bucket.Shape, tat, now, n uint64) error {
	cost := s.Cost(n)
	later := func(d time.Duration) uint64 { return now + s.Ticks(d) }
	switch wait := s.RetryAfter(tat, now, cost); {
	case n > s.Burst():
		if wait != bucket.Never {
			return fmt.Errorf("RetryAfter(%d units of %d) = %v, want Never", n, s.Burst(), wait)
		}
	case wait == 0:
		if !s.Fits(tat, now, cost) {
			return fmt.Errorf("RetryAfter(%d, %d, %d) = 0, and it does not fit", tat, now, cost)
		}
	case wait < 0, wait%time.Microsecond != 0:
		return fmt.Errorf("RetryAfter(%d, %d, %d) = %v", tat, now, cost, wait)
	case !s.Fits(tat, later(wait), cost):
		return fmt.Errorf("RetryAfter(%d, %d, %d) = %v: does not fit then", tat, now, cost, wait)
	case s.Fits(tat, later(wait-time.Microsecond), cost):
		return fmt.Errorf("RetryAfter(%d, %d, %d) = %v: fits 1 µs earlier", tat, now, cost, wait)
	}
	empty := s.TimeToEmpty(tat, now)
	if bucket.Level(tat, later(empty)) != 0 || empty > 0 && bucket.Level(tat, later(empty-time.Microsecond)) == 0 {
		return fmt.Errorf("TimeToEmpty(%d, %d) = %v", tat, now, empty)
	}
	if !s.Fits(tat, now, cost) {
		want, empty := s.RetryAfter(tat, now, cost), s.TimeToEmpty(tat, now)
		retry, drained, ok := s.Over(tat, now, cost)
		if frequent := s.PerMicro() == 1 && n <= s.Burst() && s.Remaining(tat, now) == 0 && empty != bucket.Never; ok != frequent ||
			ok && (retry != want || drained != empty) {
			return fmt.Errorf("Over(%d, %d, %d) = %v, %v, %v, want %v, %v, %v", tat, now, cost, retry, drained, ok, want, empty, frequent)
		}
	}
	return nil
}

// TestDerived: retry time, remaining, refund and the rest agree with the
// definition of fitting, in random states, costs above the burst included.
func TestDerived(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	for _, r := range rates {
		for range 3000 {
			burst := 1 + rng.Uint64N(1<<rng.UintN(12))
			s := mustShape(t, r.n, r.per, burst)
			now := s.Ticks(time.Duration(rng.Int64N(int64(366 * day))))
			tat := now + rng.Uint64N(s.Limit()+s.Grace()+1)
			switch rng.IntN(8) {
			case 0:
				tat = rng.Uint64N(now + 1) // drained
			case 1:
				tat = now + s.Limit() + s.Grace() - rng.Uint64N(3)
			}
			n := rng.Uint64N(burst + 3)
			if err := checkState(&s, tat, now, n); err != nil {
				t.Fatalf("%d per %v burst %d: %v", r.n, r.per, burst, err)
			}
		}
	}
}

// FuzzShape holds random shapes in random states to the definitions, and to
// the ideal bucket over a short stream.
func FuzzShape(f *testing.F) {
	f.Add(uint64(1), int64(1e6), uint64(1), []byte{0, 1, 2})
	f.Add(uint64(3), int64(1e6), uint64(5), []byte{0, 0, 0, 0, 0, 0, 200, 7, 9})
	f.Add(uint64(300_000), int64(1e6), uint64(20), []byte{1, 1, 255, 3})
	f.Add(uint64(7), int64(15*60e6), uint64(1<<20), []byte{128, 64, 32})
	f.Add(uint64(1e9), int64(1e6), uint64(1<<60), []byte{0})
	f.Add(uint64(100_001), int64(1e6), uint64(1), []byte{})
	f.Fuzz(func(t *testing.T, n uint64, micros int64, burst uint64, steps []byte) {
		if micros > math.MaxInt64/1000 || micros < math.MinInt64/1000 {
			return
		}
		per := time.Duration(micros) * time.Microsecond
		s, err := bucket.NewShape(n, per, burst)
		if err != nil {
			return
		}
		oracle := newIdeal(n, per, burst)
		now, tat := time.Duration(0), uint64(0)
		for i, b := range steps {
			// The lower half of a step is a cost, the upper one a pause of up to
			// about 2T, not in whole µs.
			if pause := float64(per) / float64(n) * float64(b>>4) / 8; pause < float64(day) {
				now += time.Duration(pause) + time.Duration(b>>4)
			}
			units := uint64(b & 15)
			if err := checkState(&s, tat, s.Ticks(now), units); err != nil {
				t.Fatalf("%d per %v burst %d, step %d: %v", n, per, burst, i, err)
			}
			if units == 0 {
				continue
			}
			fits := s.Fits(tat, s.Ticks(now), s.Cost(units))
			if oracle.fits(now, units) && !fits {
				t.Fatalf("%d per %v burst %d, step %d: denied and conforms", n, per, burst, i)
			}
			if !fits {
				continue
			}
			tat = bucket.Add(tat, s.Ticks(now), s.Cost(units))
			oracle.add(now, units)
			if over := oracle.over(); over.Cmp(ratU(2000)) >= 0 {
				t.Fatalf("%d per %v burst %d, step %d: admitted %v ns beyond the burst", n, per, burst, i, over.FloatString(1))
			}
		}
	})
}

// TestOverOfAges: waits that no time.Duration holds are left to the others.
func TestOverOfAges(t *testing.T) {
	t.Parallel()
	s, err := bucket.NewShape(1, time.Second, 1e11) // 3,000 years
	if err != nil {
		t.Fatal(err)
	}
	const now = 1e6
	for _, n := range []uint64{1, 5e10, 1e11} {
		if retry, empty, ok := s.Over(now+s.Limit(), now, s.Cost(n)); ok {
			t.Errorf("Over for %d units of a full bucket = %v, %v", n, retry, empty)
		}
	}
}
