package replay

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
)

// exact are the parameters of an exact leaky bucket, or of a fixed window, over whole microseconds. Levels
// count 1/per units: a unit adds per and a microsecond leaks n, where n/per is the
// rate in lowest terms. It shares no code with package bucket, which it checks, only the
// names of algorithms.
type exact struct {
	n, per uint64
	limit  uint64 // B·per

	// Of a fixed window n is 0 and per 1, and a level falls to 0 when one ends.
	window      int64 // µs; 0 of a bucket
	countDenied bool
}

// newExact rejects what the oracle cannot check: an algorithm that it does
// not know, whose denials it would call false, and what would lose precision or
// overflow: a period below a microsecond, and a burst of more than 2^62 levels.
func newExact(algorithm bucket.Algorithm, c fastlimit.RuleConfig) (exact, error) {
	switch algorithm {
	case bucket.LeakyBucket, bucket.TokenBucket: // which are one
	case bucket.FixedWindow:
		return exact{per: 1, limit: c.Rate.N, window: c.Rate.Per.Microseconds(), countDenied: c.CountDenied}, nil
	default:
		return exact{}, fmt.Errorf("rule %q: replay cannot check its algorithm (%v), only buckets and fixed windows: leave the rule out", c.Name, algorithm)
	}
	if c.Rate.Per <= 0 || c.Rate.Per%time.Microsecond != 0 {
		return exact{}, fmt.Errorf("rule %q: rate %v: want a period of whole microseconds", c.Name, c.Rate)
	}
	n, per := c.Rate.N, uint64(c.Rate.Per/time.Microsecond)
	// Lowest terms by Euclid's algorithm, so that limit overflows as late as possible.
	for a, b := n, per; ; a, b = b, a%b {
		if b == 0 {
			n, per = n/a, per/a
			break
		}
	}
	hi, limit := bits.Mul64(c.Burst, per)
	if hi != 0 || limit > 1<<62 { // fits adds up to another burst to a level
		return exact{}, fmt.Errorf("rule %q: burst %d at %v is too large to check", c.Name, c.Burst, c.Rate)
	}
	return exact{n: n, per: per, limit: limit}, nil
}

// leak returns the level after micros microseconds; negative time leaks nothing.
func (e *exact) leak(level uint64, micros int64) uint64 {
	hi, out := bits.Mul64(e.n, uint64(max(0, micros)))
	if hi != 0 || out >= level { // empty: no bucket leaks below that
		return 0
	}
	return level - out
}

func (e *exact) fits(level, cost uint64) bool { return level+cost*e.per <= e.limit }

// excess is how far a level is above the burst, in units.
func (e *exact) excess(level uint64) float64 {
	if level <= e.limit {
		return 0
	}
	return float64(level-e.limit) / float64(e.per)
}

// account is the oracle's view of one client under one rule.
type account struct {
	at       int64  // microsecond of the levels; of a window in Unix time
	admitted uint64 // level of a bucket filled with what the limiter admitted
	alone    uint64 // level of a bucket that makes its own decisions

	requests    int
	denied      int // by this rule
	falseDenied int // denied by this rule although the request would have fitted
	exactDenied int // denied by the bucket that makes its own decisions
	key         []string

	exhausted bool // by a request that was denied, which counted
}

// advance leaks both levels up to time at.
func (a *account) advance(e *exact, at int64) {
	if e.window > 0 {
		if a.at/e.window != at/e.window {
			a.admitted, a.alone, a.exhausted = 0, 0, false
		}
		a.at = at
		return
	}
	a.admitted = e.leak(a.admitted, at-a.at)
	a.alone = e.leak(a.alone, at-a.at)
	a.at = at
}

// verdict is the limiter's decision on a request from the view of one rule.
type verdict uint8

const (
	admitted verdict = iota
	deniedHere
	deniedElsewhere // by another rule, so that no bucket here is charged
)

// judge records a request with the limiter's verdict, and returns the excess after
// it.
func (a *account) judge(e *exact, cost uint64, v verdict) (excess float64) {
	a.requests++
	switch v {
	case deniedElsewhere:
		return 0
	case admitted: // even beyond the burst: P2 bounds by how much
		a.admitted += cost * e.per
		excess = e.excess(a.admitted)
	case deniedHere:
		a.denied++
		// P1 allows a denial only if the request does not fit beside what was admitted.
		if e.fits(a.admitted, cost) && !a.exhausted {
			a.falseDenied++
		}
		a.exhausted = e.countDenied
	}
	if e.fits(a.alone, cost) {
		a.alone += cost * e.per
	} else {
		a.exactDenied++
		if e.countDenied {
			a.alone = e.limit
		}
	}
	return excess
}
