// Package bucket is the exact tier: the arithmetic of one leaky bucket, window or log
// ([Shape]), and a fixed-size table of buckets ([Table]) that serves as the exact tier of a
// single node, as the memory of verdicts, and as the fallback when a shared store is
// unavailable.
//
// # The bucket
//
// A bucket leaks r units per second and holds B. It is kept as the virtual
// time until which it is busy (TAT, the theoretical arrival time of GCRA, the
// generic cell rate algorithm of ITU-T I.371), which is the leaky bucket in
// one number:
//
//	level = max(TAT - now, 0)                        in ticks
//	a request of n units fits iff level + n·T <= B·T + grace
//	then TAT = max(TAT, now) + n·T
//
// # Exactness
//
// r = N units per period P is kept as a fraction in lowest terms: a tick is
// 1/num µs and a unit costs den ticks, with num/den = N/P in units per µs. So
// T = den ticks exactly, for 3/s as for 1/d, and nothing is ever rounded but
// the clock, which is read in whole µs. Rounding two readings down can bring
// two requests nearer by less than 1 µs = num ticks; grace = num - 1 ticks
// makes up for it, so that a client which conforms by an ideal clock is never
// denied by the rounding. Where T is a whole number of µs, grace is 0.
//
// In the other direction it admits a little more: rounding can also put two requests up to
// 1 µs further apart. So what a bucket admits conforms, by an ideal clock, to rate r and
// burst B + r·2 µs ([ClockRounding]), one µs for the grace and one for the rounding; both
// are less than that.
package bucket

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/fastlimit/fastlimit/internal/field"
)

const (
	// MaxRate is the highest rate, in units per second.
	MaxRate = 1_000_000_000

	// maxPerMicro bounds num. Ticks since the start of the clock must fit 63
	// bits: with num at this bound that is four years, with num = 1 it is
	// 292,000. The bound admits every N up to 65,536 per any period, and
	// larger N that are round.
	maxPerMicro = 1 << 16

	// maxLimit bounds B·T in ticks, so that sums of a few such levels and a
	// clock reading stay within 64 bits.
	maxLimit = 1 << 60

	// MaxPortable bounds levels in ticks in stores that compute with
	// float64, as Lua does: half of 2^53, so that sums of two stay exact.
	MaxPortable = 1 << 52

	// maxMicros is the longest time.Duration in µs.
	maxMicros = math.MaxInt64 / uint64(time.Microsecond)

	// ClockRounding is the time by which a bucket may be larger than B, since the clock is
	// read in whole µs.
	ClockRounding = 2 * time.Microsecond

	// DriftShift bounds the drift between two clocks: 2^-10 of the time, about twice
	// the 500 ppm at which NTP slews a clock.
	DriftShift = 10

	// Never is the wait for a request that can never fit.
	Never = time.Duration(math.MaxInt64)
)

// ErrInexact means that a rate has no exact representation within the bounds.
var ErrInexact = errors.New("rate cannot be kept exactly")

// Shape is the rate and size of a bucket with its derived constants. It is immutable, and a
// value; copies are independent. The zero value has rate 0 and admits nothing.
type Shape struct {
	perMicro uint64 // num: ticks per µs; 0 for a window
	unit     uint64 // den: ticks per unit, T
	limit    uint64 // B·T
	most     uint64 // B·T + num - 1, grace included
	burst    uint64 // B
	part     uint64 // ticks of a cost of 1: unit, or its thousandth; see InThousandths
	costs    uint64 // the highest cost that ever fits: B in parts
	mask     uint64 // the bits of a state that are its level: all, or for a window the count
	period   uint64 // of windows and logs, in µs; 0 for a bucket

	stored    uint64    // see StoredUnit; 0: unit
	algorithm Algorithm // LeakyBucket also for TokenBucket
	countBits uint8     // of each of the two counts of a sliding window
	low       uint64    // the bits of ticks that hold the steps of a sliding window
	fromStore bool      // a table's verdicts on logs are from a store; see WithSlack
	late      uint64    // ticks by which such a verdict may end later
}

// NewShape returns the bucket of n units per period and the given burst. It fails on a rate
// outside 1/d to 10^9/s, on one that is not exact (the error wraps [ErrInexact]), and on a
// burst that is 0 or takes longer than about 36,000 years to leak. All but the second error
// are a field error of Rate or Burst.
func NewShape(n uint64, per time.Duration, burst uint64) (Shape, error) {
	micros := uint64(per / time.Microsecond)
	rate := fmt.Sprintf("%d per %v", n, per)
	switch {
	case n == 0 || per <= 0 || float64(n)/per.Seconds() < 1/86400.0:
		return invalid("Rate", "rate "+rate+" is too slow", "want at least 1 per day")
	case per%time.Microsecond != 0:
		return invalid("Rate", "period "+per.String()+" is not whole microseconds", "want whole microseconds")
	case float64(n)/per.Seconds() > MaxRate:
		return invalid("Rate", "rate "+rate+" is too fast", "want at most 10^9 per second")
	case burst == 0:
		return invalid("Burst", "0 admits nothing", "want at least 1")
	}
	g := gcd(n, micros)
	num, den := n/g, micros/g
	if num > maxPerMicro {
		return Shape{}, fmt.Errorf("fastlimit/bucket: %s: %w", rate, ErrInexact)
	}
	hi, limit := bits.Mul64(burst, den)
	if hi != 0 || limit > maxLimit {
		return invalid("Burst", fmt.Sprintf("burst %d at %s is too large", burst, rate), fmt.Sprintf("want at most %d", maxLimit/den))
	}
	return Shape{perMicro: num, unit: den, limit: limit, most: limit + num - 1, burst: burst, part: den, costs: burst, mask: math.MaxUint64}, nil
}

// invalid returns what is wrong with a field of a rule, and no shape.
func invalid(name, problem, fix string) (Shape, error) {
	return Shape{}, &field.Error{Package: "fastlimit/bucket", Field: name, Problem: problem, Fix: fix}
}

// Ticks converts a time since the start of the clock to ticks, rounded down
// to whole µs.
func (s *Shape) Ticks(now time.Duration) uint64 {
	return uint64(now) / uint64(time.Microsecond) * s.perMicro
}

// LastTime returns the latest time that may be passed to [Shape.Ticks]: its ticks fit 63
// bits, which leaves room for levels. It is 292 years up to 1000 ticks per µs, which most
// rates are far below, and never less than four years.
//
// For a fixed window it is the latest time since 1970 that may be passed to
// [Shape.WindowTicks], as the number of a window has 32 bits: for windows of a second
// 2106-02-07 06:28:15.999999999 UTC, for those of 2.2 s and more any time.
func (s *Shape) LastTime() time.Duration {
	if s.algorithm == FixedWindow {
		if end := s.begin(1 << windowShift); end < math.MaxInt64 {
			return end - 1
		}
		return math.MaxInt64
	}
	const ticks = math.MaxInt64
	if us := ticks / max(s.perMicro, 1); us < maxMicros {
		return time.Duration(us) * time.Microsecond
	}
	return math.MaxInt64
}

// Duration converts ticks to time, rounded up to whole µs, so that waiting for it is always
// long enough.
func (s *Shape) Duration(ticks uint64) time.Duration {
	us := ticks
	// Most rates have one tick per µs; a division costs as much as the rest of
	// a denial.
	if s.perMicro > 1 {
		us = (ticks + s.perMicro - 1) / s.perMicro
	}
	if us > maxMicros {
		return Never
	}
	return time.Duration(us) * time.Microsecond
}

// Cost converts n units, or thousandths with [Shape.InThousandths], to ticks. It saturates
// above every limit.
func (s *Shape) Cost(n uint64) uint64 {
	if n > s.costs {
		return s.most + 1
	}
	return n * s.part
}

// Burst returns B.
func (s *Shape) Burst() uint64 { return s.burst }

// Unit returns T in ticks.
func (s *Shape) Unit() uint64 { return s.unit }

// Limit returns B·T in ticks, without the grace.
func (s *Shape) Limit() uint64 { return s.limit }

// Grace returns num - 1 ticks, which rounding needs.
func (s *Shape) Grace() uint64 { return s.most - s.limit }

// Most returns Limit + Grace: a request fits up to it.
func (s *Shape) Most() uint64 { return s.most }

// PerMicro returns num, the ticks that leak per µs.
func (s *Shape) PerMicro() uint64 { return s.perMicro }

// WithSlack returns a bucket of the same rate that holds r·d more, rounded up to whole µs:
// requests that leave a client evenly may reach the bucket up to d closer together. Windows
// and logs have no slack: a request counts where, and when, it is judged. But a table's
// verdict on a log is then the store's, and not from the log's own times: if clocks drift
// apart, those could outlast the store's. And the wait for a log is longer by the time d
// that a store may take to judge.
func (s Shape) WithSlack(d time.Duration) Shape {
	switch {
	case s.Logged() && d > 0:
		s.fromStore, s.late = true, 2*(s.period>>DriftShift)+uint64(d/time.Microsecond)
		return s
	case s.period != 0:
		return s
	}
	us := uint64(max(d, 0) / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	if hi, more := bits.Mul64(us, s.perMicro); hi == 0 && more <= maxLimit-s.limit {
		s.limit, s.most = s.limit+more, s.most+more
	} else {
		s.limit, s.most = maxLimit, maxLimit+s.Grace()
	}
	return s
}

// Portable reports whether a store that computes with float64 keeps this bucket exactly;
// see [MaxPortable] and [MaxPortableLog].
func (s *Shape) Portable() bool {
	return s.most <= MaxPortable && (!s.Logged() || s.burst <= MaxPortableLog)
}

// MaxDrain returns the time in which everything leaks that any table knows about a client.
// The most it can know is twice what fits: a full bucket, and as much again that a store
// which has forgotten it granted to waiting requests.
//
// A window ends by the wall clock, which may be slowed down.
func (s *Shape) MaxDrain() time.Duration {
	//exhaustive:enforce
	switch s.algorithm {
	case LeakyBucket, TokenBucket: // below
	case FixedWindow, SlidingLog:
		return 2 * s.Period()
	case SlidingWindow:
		return 3 * s.Period()
	}
	return time.Duration(2*(s.most/s.perMicro)+2) * time.Microsecond
}

// Level returns the content of a bucket in ticks, or of a window in units. The state of a
// log says less: Level returns the limit if no unit fits, else 0.
func (s *Shape) Level(tat, now uint64) uint64 {
	switch {
	case s.algorithm == SlidingWindow:
		return s.weighted(tat, now)
	case !s.Logged():
		return s.level(tat, now)
	case tat <= now || tat == logged:
		return 0
	}
	return s.limit
}

// level is Level for a bucket or a fixed window. It is inlined.
func (s *Shape) level(tat, now uint64) uint64 {
	if tat <= now {
		return 0
	}
	return (tat - now) & s.mask
}

// Live reports whether a state, not of a log, says more than that of a client that was
// never seen.
func (s *Shape) Live(tat, now uint64) bool { return tat > now|s.low }

// Level returns the level of a bucket of any shape.
func Level(tat, now uint64) uint64 {
	if tat <= now {
		return 0
	}
	return tat - now
}

// Fits reports whether a request of the given cost fits, by reading alone.
func (s *Shape) Fits(tat, now, cost uint64) bool {
	return s.Level(tat, now)+cost <= s.most
}

// Exceeds is !Fits for a bucket, without the mask that windows need.
func (s *Shape) Exceeds(tat, now, cost uint64) bool {
	return Level(tat, now)+cost > s.most
}

// Sub is the function Sub for this shape. Units counted in a window that is over are not
// given back.
func (s *Shape) Sub(tat, now, cost uint64) uint64 {
	switch {
	case s.algorithm == SlidingWindow:
		return s.slidingSub(tat, now, cost)
	case s.Logged():
		if cost > 0 {
			return 0 // it is not known how many units fit now
		}
		return tat
	case s.Level(tat, now) <= cost:
		return min(tat, now)
	}
	return tat - cost
}

// Add returns the TAT after a request of the given cost, whether it fits or
// not.
func Add(tat, now, cost uint64) uint64 { return max(tat, now) + cost }

// Sub returns the TAT after a request of the given cost is given back. A bucket never drops
// below empty, and one that has drained stays as it is: now may be ahead of the clock that
// charged it.
func Sub(tat, now, cost uint64) uint64 {
	if Level(tat, now) <= cost {
		return min(tat, now)
	}
	return tat - cost
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
