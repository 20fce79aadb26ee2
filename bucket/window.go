package bucket

import (
	"fmt"
	"math"
	"time"
)

// # Fixed windows
//
// A fixed window is n units per period, counted from zero in each period. Periods are
// aligned to Unix time. The arithmetic is that of a bucket, with other ticks:
//
//	state = window<<32 | count           window = Unix time / period
//	ticks = window<<32                   a unit is one tick, the limit is n
//	level = count if state >= ticks, else 0
//
// So a state of a later window compares greater, a count is drained once its window is over
// (state < ticks), states merge by maximum, and "max(state, ticks) + cost" counts in the
// current window. A state of a window after that of ticks was made by a later reading of
// the clock: the request is then counted there, as if it had been read later, and Level is
// the count of that window.
//
// The limit is not in the state: limits of one period can share a table; see
// [Table.Share].
//
// The ticks do not include the time within the window. Use [Shape.Waits] to find out how
// long a client has to wait.

const (
	windowShift = 32
	countMask   = 1<<windowShift - 1

	// MaxWindowUnits bounds the units of a window: a count takes half a word.
	MaxWindowUnits = countMask

	// MinPeriod is the shortest window.
	MinPeriod = time.Second
	// MaxPeriod is the longest window.
	MaxPeriod = 366 * 24 * time.Hour
)

// NewWindow returns the shape of n units per window of the given period. It fails,
// with a field error of Rate, on a period that is not 1 s to 366 d in whole µs,
// and on n of 0 or 2^32 and more.
func NewWindow(n uint64, per time.Duration) (Shape, error) {
	switch {
	case n == 0:
		return invalid("Rate", "0 admits nothing", "want at least 1")
	case n > MaxWindowUnits:
		return invalid("Rate", fmt.Sprintf("%d units in a window are too many", n), fmt.Sprintf("want at most %d", uint64(MaxWindowUnits)))
	case per < MinPeriod || per > MaxPeriod:
		return invalid("Rate", fmt.Sprintf("a window of %v", per), "want 1s to 366d")
	case per%time.Microsecond != 0:
		return invalid("Rate", "period "+per.String()+" is not whole microseconds", "want whole microseconds")
	}
	return Shape{unit: 1, limit: n, most: n, burst: n, part: 1, costs: n, mask: countMask, period: uint64(per / time.Microsecond), algorithm: FixedWindow}, nil
}

// Windowed reports whether limits of this shape are counted in windows, fixed or
// sliding, which begin by the wall clock. Their ticks are those of WindowTicks.
func (s *Shape) Windowed() bool { return s.algorithm == FixedWindow || s.algorithm == SlidingWindow }

// Logged reports whether the time of each unit is kept. Ticks are then µs.
func (s *Shape) Logged() bool { return s.algorithm == SlidingLog }

// Period returns how long a window lasts, or how long a log counts a unit; 0 for a bucket.
func (s *Shape) Period() time.Duration { return time.Duration(s.period) * time.Microsecond }

// WindowTicks converts a time since 1970 to the ticks of a shape that is Windowed: those of
// the start of its window, plus the steps since then for a sliding one. A time before 1970
// counts as 1970.
func (s *Shape) WindowTicks(unix time.Duration) uint64 {
	us := uint64(max(unix, 0)) / uint64(time.Microsecond)
	if s.algorithm == SlidingWindow {
		window := us / s.period
		return window<<(2*s.countBits) | (us-window*s.period)/(s.period/SlidingSteps)
	}
	return us / s.period << windowShift
}

// Window returns the number of the window of these ticks, for a shape that is Windowed.
func (s *Shape) Window(ticks uint64) uint64 {
	if s.algorithm == SlidingWindow {
		return ticks >> (2 * s.countBits)
	}
	return ticks >> windowShift
}

// WindowOf returns the number of the window of a state, for a shape that is Windowed.
func (s *Shape) WindowOf(state uint64) uint64 {
	window := s.Window(state)
	if s.algorithm == SlidingWindow {
		window -= min(window, windowsAhead)
	}
	return window
}

// Waits returns how long after the time since 1970 a request of the given cost, which is no
// more than the limit, fits if nothing else arrives, and when none of the state counts any
// more. now is that time in ticks. It is for shapes that are Windowed. Units counted by a
// later reading count in the window of that reading.
func (s *Shape) Waits(state, now uint64, unix time.Duration, cost uint64) (retry, empty time.Duration) {
	if s.algorithm == SlidingWindow {
		return s.slidingWaits(state, now, unix, cost)
	}
	left := s.begin(s.Window(max(state, now))+1) - unix
	if s.Level(state, now) > 0 {
		empty = left
	}
	if !s.Fits(state, now, cost) {
		retry = left
	}
	return retry, empty
}

// begin returns when a window begins, as the time since 1970.
func (s *Shape) begin(window uint64) time.Duration {
	if window > math.MaxInt64/uint64(s.Period()) {
		return math.MaxInt64
	}
	return time.Duration(window) * s.Period()
}

// SketchTicks returns the ticks of the sketch before windows and logs, which counts units
// in aligned periods: of the wall time for windows, of the limiter's time for a log. ticks
// are those of the shape.
func (s *Shape) SketchTicks(ticks uint64) uint64 {
	//exhaustive:enforce
	switch s.algorithm {
	case LeakyBucket, TokenBucket, FixedWindow: // the same
	case SlidingWindow:
		return ticks >> (2 * s.countBits) << windowShift
	case SlidingLog:
		return ticks / s.period << windowShift
	}
	return ticks
}

// Full reports whether a denied request that is to count would leave a state unchanged.
func (s *Shape) Full(state, now uint64) bool {
	if s.algorithm == SlidingWindow {
		_, _, current, _ := s.slide(state, now)
		return current >= s.limit
	}
	return s.Level(state, now) >= s.limit
}

// settle is Add for units that a store has admitted in the window of now. They do not count
// in a later fixed window. A count stays within its bits of the word.
func (s *Shape) settle(state, now, cost uint64) uint64 {
	if s.algorithm == SlidingWindow {
		return s.slidingSettle(state, now, cost)
	}
	if s.Window(state) > s.Window(now) {
		return state
	}
	state = max(state, now)
	return state + min(cost, countMask-state&countMask)
}

// add is Add for a shape that is Windowed.
func (s *Shape) add(state, now, cost uint64) uint64 {
	if s.algorithm == SlidingWindow {
		return s.slidingAdd(state, now, cost)
	}
	return Add(state, now, cost)
}

// Reported returns the state that a store's reply at now reports; see [Reply]. For a log it is
// only the time until which no unit fits.
func (s *Shape) Reported(now, level uint64) uint64 {
	//exhaustive:enforce
	switch s.algorithm {
	case LeakyBucket, TokenBucket, FixedWindow: // below
	case SlidingWindow:
		previous, current := Unpack(level)
		if level == 0 {
			return 0
		}
		return s.sliding(s.Window(now), previous, current)
	case SlidingLog:
		if level < s.limit {
			return 0
		}
		wait := level - s.limit // by the store's clock, which may be faster
		return now + wait - min(wait, wait>>DriftShift+1)
	}
	return now + level
}

// Join returns the least state that is at least as full as both, each of which knows some
// of the admitted requests.
func (s *Shape) Join(a, b uint64) uint64 {
	if s.algorithm == SlidingWindow {
		return s.slidingJoin(a, b)
	}
	return max(a, b)
}

// exhausted returns the state after a denied request that counts like an admitted one. In a
// fixed window nothing more fits then, whatever its cost was, since it did not fit itself.
func (s *Shape) exhausted(state, now, cost uint64) uint64 {
	if s.algorithm == SlidingWindow {
		return s.slidingExhausted(state, now, cost)
	}
	state = max(state, now)
	return state + s.limit - min(s.Level(state, now), s.limit)
}
