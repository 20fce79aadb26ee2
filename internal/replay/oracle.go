package replay

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
)

// exact is one limit, counted for each client separately over whole microseconds. What counts at a time is
// its level, in parts: a unit has per parts, and limit parts fit.
//
//	buckets         a microsecond leaks n parts; n/per is the rate in lowest terms
//	fixed window    the units of this period; per is 1
//	sliding window  the units of this period, and of the one before the share that
//	                would be left in a period ending now; per is the number of steps in
//	                which that share falls, so that levels are whole
//	log             the units whose time is less than a period ago; per is 1
//
// It shares no code with package bucket, which it checks, only the names of algorithms.
type exact struct {
	algorithm   bucket.Algorithm
	n, per      uint64
	limit       uint64
	period      int64   // of windows and logs, in µs
	countDenied bool    // of windows
	scale       float64 // costs per unit
}

// slidingSteps is the number of steps in which the share of the previous period falls to 0, as in the
// limiter.
const slidingSteps = 62_500

// newExact rejects what the oracle cannot check: an unknown algorithm, whose denials it would call false, and
// what would lose precision or overflow.
func newExact(algorithm bucket.Algorithm, c fastlimit.RuleConfig) (exact, error) {
	e := exact{algorithm: algorithm, scale: 1, per: 1, limit: c.Rate.N, period: c.Rate.Per.Microseconds(), countDenied: c.CountDenied}
	switch algorithm {
	case bucket.LeakyBucket, bucket.TokenBucket: // which are the same
		return newExactBucket(algorithm, c)
	case bucket.FixedWindow, bucket.SlidingLog:
	case bucket.SlidingWindow:
		e.per = slidingSteps
		hi, limit := bits.Mul64(c.Rate.N, slidingSteps)
		if hi != 0 || limit > 1<<61 { // two counts make a level
			return exact{}, fmt.Errorf("rule %q: rate %v is too large to check", c.Name, c.Rate)
		}
		e.limit = limit
	default:
		return exact{}, fmt.Errorf("rule %q: replay cannot check its algorithm (%v), only buckets, windows and logs: leave the rule out", c.Name, algorithm)
	}
	return e, nil
}

// newExactBucket rejects a period below a microsecond, and a burst of more than 2^62
// parts.
func newExactBucket(algorithm bucket.Algorithm, c fastlimit.RuleConfig) (exact, error) {
	if c.Rate.Per <= 0 || c.Rate.Per%time.Microsecond != 0 {
		return exact{}, fmt.Errorf("rule %q: rate %v: want a period of whole microseconds", c.Name, c.Rate)
	}
	scale := c.CostScale() // everything in parts of a unit
	hi, n := bits.Mul64(c.Rate.N, scale)
	over, burst := bits.Mul64(c.Burst, scale)
	per := uint64(c.Rate.Per / time.Microsecond)
	if hi != 0 || over != 0 {
		return exact{}, fmt.Errorf("rule %q: burst %d at %v is too large to check", c.Name, c.Burst, c.Rate)
	}
	// Lowest terms by Euclid's algorithm, so that limit overflows as late as possible.
	for a, b := n, per; ; a, b = b, a%b {
		if b == 0 {
			n, per = n/a, per/a
			break
		}
	}
	hi, limit := bits.Mul64(burst, per)
	if hi != 0 || limit > 1<<62 { // fits adds up to another burst to a level
		return exact{}, fmt.Errorf("rule %q: burst %d at %v is too large to check", c.Name, c.Burst, c.Rate)
	}
	return exact{algorithm: algorithm, n: n, per: per, limit: limit, scale: float64(scale)}, nil
}

// unixTime reports whether the limit counts by periods of Unix time. Buckets and logs use the limiter's time,
// which leaves out long silences.
func (e *exact) unixTime() bool {
	return e.algorithm == bucket.FixedWindow || e.algorithm == bucket.SlidingWindow
}

// tally is what still counts of somebody's units, as of the time to which it was last advanced.
type tally struct {
	now    uint64  // the level of a bucket in parts, or a window's units of this period
	before uint64  // of a sliding window: the units of the period before
	taken  []int64 // of a log: when, one for each unit, in order
}

// advance advances a tally from one time to a later one.
func (e *exact) advance(t *tally, from, to int64) {
	//exhaustive:enforce
	switch e.algorithm {
	case bucket.LeakyBucket, bucket.TokenBucket:
		t.now = e.leak(t.now, to-from)
	case bucket.FixedWindow:
		if to/e.period != from/e.period {
			t.now = 0
		}
	case bucket.SlidingWindow:
		switch to/e.period - from/e.period {
		case 0:
		case 1:
			t.before, t.now = t.now, 0
		default:
			t.before, t.now = 0, 0
		}
	case bucket.SlidingLog:
		over := 0
		for over < len(t.taken) && to-t.taken[over] >= e.period {
			over++
		}
		t.taken = t.taken[over:]
	}
}

// leak returns the level after micros microseconds; negative time leaks nothing.
func (e *exact) leak(level uint64, micros int64) uint64 {
	hi, out := bits.Mul64(e.n, uint64(max(0, micros)))
	if hi != 0 || out >= level { // empty: no bucket leaks below that
		return 0
	}
	return level - out
}

// level is what counts, in parts, at the time to which the tally was advanced.
func (e *exact) level(t *tally, at int64) uint64 {
	//exhaustive:enforce
	switch e.algorithm {
	case bucket.LeakyBucket, bucket.TokenBucket, bucket.FixedWindow: // below
	case bucket.SlidingWindow:
		steps := uint64(at % e.period * slidingSteps / e.period) // below 2^62, as a period is below 2^45
		return t.now*slidingSteps + t.before*(slidingSteps-steps)
	case bucket.SlidingLog:
		return uint64(len(t.taken))
	}
	return t.now
}

// fits reports whether units fit with what counts.
func (e *exact) fits(t *tally, at int64, units uint64) bool {
	return e.level(t, at)+units*e.per <= e.limit
}

// excess is how far what counts is above the limit, in units.
func (e *exact) excess(t *tally, at int64) float64 {
	level := e.level(t, at)
	if level <= e.limit {
		return 0
	}
	return float64(level-e.limit) / float64(e.per) / e.scale
}

// add counts units, whether they fit or not.
func (e *exact) add(t *tally, at int64, units uint64) {
	//exhaustive:enforce
	switch e.algorithm {
	case bucket.LeakyBucket, bucket.TokenBucket:
		t.now += units * e.per
	case bucket.FixedWindow, bucket.SlidingWindow:
		t.now += units
	case bucket.SlidingLog:
		for range units {
			t.taken = append(t.taken, at)
		}
	}
}

// addDenied counts units that were denied: they fill a period up, and no more.
func (e *exact) addDenied(t *tally, units uint64) {
	t.now = max(t.now, min(t.now+units, e.limit/e.per))
}
