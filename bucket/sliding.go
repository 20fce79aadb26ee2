package bucket

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/fastlimit/fastlimit/internal/field"
)

// # Sliding windows
//
// A sliding window is n units per period. It has the aligned periods of a fixed
// window and counts those of the period before as well, by the share of it that the
// period ending now would cover ("sliding window counter"; Cloudflare, "How we built
// rate limiting capable of scaling to millions of domains", 2017):
//
//	level = current + ceil(previous · (1 - steps/62500))
//
// Time within a period goes in 62,500 steps, so that all of it is whole numbers. A
// state and ticks are one word each, c bits for each count:
//
//	state = (window + 2)<<2c | previous<<c | current
//	ticks = window<<2c | steps
//
// By the 2 a state is above all ticks of its window and of the next, and below those
// of later ones, for which it has drained. Levels add up: a unit counts one until its
// period ends, and less and less until the next one does.

const (
	// SlidingSteps is in how many steps the weight of the period before falls from 1
	// to 0.
	SlidingSteps = 62_500

	// maxCountBits keeps two counts within what float64 has exactly; see [Pack].
	maxCountBits = 26

	windowsAhead = 2 // of a state: see above
)

// NewSlidingWindow returns the shape of n units per sliding window of the given
// period. It fails, with a field error of Rate, on a period that is not 1 s to 366 d
// in sixteenths of a second, and on more units than a count of that period holds:
// 32,767 of a second, 262,143 of a minute, 2,097,151 of an hour.
func NewSlidingWindow(n uint64, per time.Duration) (Shape, error) {
	s, err := NewWindow(n, per)
	if err != nil {
		return Shape{}, err
	}
	bad := func(problem, fix string) (Shape, error) {
		return Shape{}, &field.Error{Package: "fastlimit/bucket", Field: "Rate", Problem: problem, Fix: fix}
	}
	if s.period%SlidingSteps != 0 {
		return bad("period "+per.String()+" is not whole sixteenths of a second", "want whole seconds")
	}
	// Windows up to the last time that there is.
	windows := bits.Len64(uint64(math.MaxInt64/per) + windowsAhead)
	c := min(maxCountBits, (64-windows)/2)
	if most := uint64(1)<<c - 1; n > most {
		return bad(fmt.Sprintf("%d units in a sliding window of %v are too many", n, per), fmt.Sprintf("want at most %d, or a fixed window", most))
	}
	s.algorithm, s.countBits, s.low = SlidingWindow, uint8(c), 1<<(2*c)-1
	return s, nil
}

// Pack is both counts of a sliding window as one number below 2^52: what an [Op] and
// a [Reply] have for a level. A count above 2^26 - 1 counts as that.
func Pack(previous, current uint64) uint64 {
	const most = 1<<maxCountBits - 1
	return min(previous, most)<<maxCountBits | min(current, most)
}

// Unpack is the counts of Pack.
func Unpack(level uint64) (previous, current uint64) {
	return level >> maxCountBits, level & (1<<maxCountBits - 1)
}

// Weighted is the level of a sliding window in units, steps after the period of
// current has begun.
func Weighted(previous, current, steps uint64) uint64 {
	return current + (previous*(SlidingSteps-steps)+SlidingSteps-1)/SlidingSteps
}
