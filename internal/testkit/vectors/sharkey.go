package vectors

import (
	"time"

	"github.com/fastlimit/fastlimit/legacy"
)

const ms = time.Millisecond

// Sharkey's vectors are definitions, so they also test their translation. Its
// levels fall by drips; ours fall all the time, so its reset is later than ours by
// less than a drip where a drip is more than one call.

func defined(name string, l legacy.Limit, factor float64, before uint64, calls ...Call) Vector {
	b, limited, err := l.Bucket()
	if err != nil || !limited {
		panic("BUG: vectors: " + name + " is no limit")
	}
	return dripping(name, b, factor, before, calls...)
}

func dripping(name string, b legacy.Bucket, factor float64, before uint64, calls ...Call) Vector {
	rate, burst, err := b.Scale(factor)
	if err != nil {
		panic("BUG: vectors: " + name + ": " + err.Error())
	}
	return Vector{Name: "sharkey " + name, Rate: rate, Burst: burst, Before: before, Calls: calls}
}

func minMax(n uint64, period time.Duration, interval ...time.Duration) legacy.Limit {
	l := legacy.Limit{Max: &n, Duration: &period}
	if len(interval) > 0 {
		l.MinInterval = &interval[0]
	}
	return l
}

// allow and block are calls of one unit, after which the level is as said.
func allow(at time.Duration, level uint64) Call {
	return Call{At: at, N: 1, Allowed: true, Level: level, Reset: unsaid, Full: unsaid}
}

func block(at time.Duration, level uint64) Call {
	return Call{At: at, N: 1, Level: level, Reset: unsaid, Full: unsaid}
}

// times adds what the source says of reset and full reset.
func (c Call) times(reset, full time.Duration) Call {
	c.Reset, c.Full = reset, full
	return c
}

func sharkey() []Vector {
	size := func(n uint64) legacy.Bucket { return legacy.Bucket{Size: n} }
	second := 1000 * ms
	tenIn10, coarse := minMax(10, 10*second), minMax(10, 5*second, second)
	return []Vector{
		dripping("counts", size(2), 1, 1, allow(0, 2).times(second, 2*second)),
		dripping("blocks when full", size(1), 1, 1, block(0, 1).times(second, second), block(0, 1)),
		dripping("drips", size(1), 1, 2, allow(2*second, 1)),
		dripping("drips of two", legacy.Bucket{Size: 1, DripSize: 2}, 1, 2, allow(second, 1)),
		dripping("a row of calls", size(5), 1, 0, allow(0, 1), allow(second, 1), allow(second, 2), allow(second, 3), allow(3*second, 2)),
		dripping("beyond the size", size(1), 1, 2, block(0, 2).times(2*second, 2*second)),
		dripping("half the factor", size(1), 0.5, 1, allow(0, 2), block(0, 2), allow(500*ms, 2)),
		defined("min_interval", legacy.Limit{MinInterval: &second}, 1, 0, allow(0, 1).times(second, second)),
		defined("10 in 10 s after two", tenIn10, 1, 10, allow(2*second, 9).times(0, 9*second)),
		defined("10 in 10 s full", tenIn10, 1, 10, block(0, 10).times(second, 10*second)),
		defined("10 in 10 s over time", tenIn10, 1, 10,
			block(0, 10), allow(second, 10), allow(3*second, 9), allow(3*second, 10), block(3*second, 10), allow(5*second, 9)),
		defined("4096 in 2 s", minMax(4096, 2*second), 1, 4096, block(0, 4096), allow(ms, 4095)),
		// The source says a reset of 1 s for the next three: a whole drip of two.
		defined("drips of two, full", coarse, 1, 9, allow(0, 10).times(500*ms, 5*second)),
		defined("drips of two, blocked", coarse, 1, 10, block(0, 10).times(500*ms, 5*second)),
		defined("drips of two, later", coarse, 1, 10, allow(second, 9), allow(second, 10), block(second, 10)),
		defined("drips of two, beyond the size", coarse, 1, 12, block(0, 12).times(1500*ms, 6*second)), // there 2 s
		defined("drips of two, half the factor", coarse, 0.5, 19, allow(0, 20), block(0, 20), allow(500*ms, 19)),
	}
}
