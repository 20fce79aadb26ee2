package bucket

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// # Sliding windows
//
// A sliding window is n units per period. It has the aligned periods of a fixed window and
// also counts the share of the previous period's units that the period ending now would
// cover ("sliding window counter"; Cloudflare, "How we built rate limiting capable of
// scaling to millions of domains", 2017):
//
//	level = current + ceil(previous · (1 - steps/62500))
//
// Time within a period is divided into 62,500 steps, so that all numbers are whole. A state
// and ticks are one word each, with c bits for each count:
//
//	state = (window + 2)<<2c | previous<<c | current
//	ticks = window<<2c | steps
//
// The 2 puts a state above all ticks of its window and of the next, and below those of
// later ones, for which it has drained. Levels add up: a unit counts as one until its
// period ends, and less and less until the next one does.

const (
	// SlidingSteps is the number of steps in which the weight of the previous period falls
	// from 1 to 0.
	SlidingSteps = 62_500

	// maxCountBits keeps two counts within what float64 represents exactly; see [Pack].
	maxCountBits = 26

	windowsAhead = 2 // of a state: see above
)

// NewSlidingWindow returns the shape of n units per sliding window of the given period. It
// fails, with a field error of Rate, on a period that is not 1 s to 366 d in sixteenths of
// a second, and on more units than a count for that period holds: 32,767 for a second,
// 262,143 for a minute, 2,097,151 for an hour.
func NewSlidingWindow(n uint64, per time.Duration) (Shape, error) {
	s, err := NewWindow(n, per)
	if err != nil {
		return Shape{}, err
	}
	if s.period%SlidingSteps != 0 {
		return invalid("Rate", "period "+per.String()+" is not whole sixteenths of a second", "want whole seconds")
	}
	// Windows up to the latest possible time.
	windows := bits.Len64(uint64(math.MaxInt64/per) + windowsAhead)
	c := min(maxCountBits, (64-windows)/2)
	if most := uint64(1)<<c - 1; n > most {
		return invalid("Rate", fmt.Sprintf("%d units in a sliding window of %v are too many", n, per), fmt.Sprintf("want at most %d, or a fixed window", most))
	}
	s.algorithm, s.countBits, s.low = SlidingWindow, uint8(c), 1<<(2*c)-1
	return s, nil
}

// Pack returns both counts of a sliding window as one number below 2^52, which an [Op] and
// a [Reply] have as a level. A count above 2^26 - 1 counts as that.
func Pack(previous, current uint64) uint64 {
	const most = 1<<maxCountBits - 1
	return min(previous, most)<<maxCountBits | min(current, most)
}

// Unpack is the inverse of Pack.
func Unpack(level uint64) (previous, current uint64) {
	return level >> maxCountBits, level & (1<<maxCountBits - 1)
}

// Weighted returns the level of a sliding window in units, steps after the period of
// current has begun.
func Weighted(previous, current, steps uint64) uint64 {
	return current + (previous*(SlidingSteps-steps)+SlidingSteps-1)/SlidingSteps
}

// countsMask returns the bits of one count.
func (s *Shape) countsMask() uint64 { return 1<<s.countBits - 1 }

// slide returns the parts of a state that count in the window of now, or in its own if that
// is later, which means that a later reading of the clock made it.
func (s *Shape) slide(state, now uint64) (window, previous, current, steps uint64) {
	window, steps = now>>(2*s.countBits), now&s.low
	if state <= now|s.low { // drained
		return window, 0, 0, steps
	}
	of := state>>(2*s.countBits) - windowsAhead
	previous, current = state>>s.countBits&s.countsMask(), state&s.countsMask()
	switch {
	case of > window:
		return of, previous, current, 0
	case of < window: // by one
		return window, current, 0, steps
	}
	return window, previous, current, steps
}

// sliding returns the state of counts in a window. Counts saturate.
func (s *Shape) sliding(window, previous, current uint64) uint64 {
	most := s.countsMask()
	return (window+windowsAhead)<<(2*s.countBits) | min(previous, most)<<s.countBits | min(current, most)
}

// weighted is Level for a sliding window.
func (s *Shape) weighted(state, now uint64) uint64 {
	_, previous, current, steps := s.slide(state, now)
	return Weighted(previous, current, steps)
}

// slidingAdd is Add for a sliding window.
func (s *Shape) slidingAdd(state, now, cost uint64) uint64 {
	window, previous, current, _ := s.slide(state, now)
	return s.sliding(window, previous, current+cost)
}

// slidingSettle is Add for units that a store has admitted in the window of now. In a state
// of the next window they count in the previous period.
func (s *Shape) slidingSettle(state, now, cost uint64) uint64 {
	window, previous, current, _ := s.slide(state, now)
	switch window - now>>(2*s.countBits) {
	case 0:
		current += cost
	case 1:
		previous += cost
	}
	return s.sliding(window, previous, current)
}

// slidingSub is Sub for a sliding window: units are given back from the current period
// first, the rest from the previous one.
func (s *Shape) slidingSub(state, now, cost uint64) uint64 {
	window, previous, current, _ := s.slide(state, now)
	rest := cost - min(cost, current)
	previous, current = previous-min(previous, rest), current-min(current, cost)
	if previous == 0 && current == 0 {
		return 0
	}
	return s.sliding(window, previous, current)
}

// JoinCounts returns the least counts of a sliding window that make a level no lower than
// either pair does, at any time. A unit that one side counts in the previous period and the
// other in the current one, as when an answer was lost between them, counts once.
func JoinCounts(previous, current, otherPrevious, otherCurrent uint64) (joinedPrevious, joinedCurrent uint64) {
	joinedCurrent = max(current, otherCurrent)
	return max(previous+current, otherPrevious+otherCurrent) - joinedCurrent, joinedCurrent
}

// slidingJoin is [Shape.Join] for a sliding window.
func (s *Shape) slidingJoin(a, b uint64) uint64 {
	shift, most := 2*s.countBits, s.countsMask()
	if a>>shift < b>>shift {
		a, b = b, a
	}
	previous, current := a>>s.countBits&most, a&most
	switch a>>shift - b>>shift {
	case 0:
		previous, current = JoinCounts(previous, current, b>>s.countBits&most, b&most)
	case 1:
		previous, current = JoinCounts(previous, current, b&most, 0)
	}
	return a>>shift<<shift | previous<<s.countBits | current
}

// slidingExhausted returns the state after a denied request that counts all the same, up to
// the limit in each period.
func (s *Shape) slidingExhausted(state, now, cost uint64) uint64 {
	window, previous, current, _ := s.slide(state, now)
	return s.sliding(window, previous, max(current, min(s.limit, current+cost)))
}

// slidingWaits is [Shape.Waits] for a sliding window.
func (s *Shape) slidingWaits(state, now uint64, unix time.Duration, cost uint64) (retry, empty time.Duration) {
	window, previous, current, _ := s.slide(state, now)
	switch {
	case current > 0:
		empty = s.begin(window+2) - unix
	case previous > 0:
		empty = s.begin(window+1) - unix
	}
	if current+cost > s.limit { // not in this window: in the next one it is the previous count
		window, previous, current = window+1, current, 0
	}
	steps := uint64(0) // from which on ceil(previous·(1 - steps/62500)) fits together with current
	if room := s.limit - cost - current; previous > room {
		steps = SlidingSteps - room*SlidingSteps/previous
	}
	at := s.begin(window) + time.Duration(steps*(s.period/SlidingSteps))*time.Microsecond
	return max(at-unix, 0), empty
}

// Counts returns the counts of a state of a sliding window in the window of now, or in its
// own if that is later; see [Pack].
func (s *Shape) Counts(state, now uint64) (window, level uint64) {
	window, previous, current, _ := s.slide(state, now)
	return window, Pack(previous, current)
}
