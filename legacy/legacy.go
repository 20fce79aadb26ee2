// Package legacy translates rate limits that are defined as Sharkey defines them:
// as a count with its period and the least time between two calls ([Limit]), or as
// a bucket that loses drips ([Bucket]), with the factor by which a user's limit is
// relaxed or tightened.
//
// # Model
//
// Both become a leaky bucket. A definition of max calls in a duration, at least
// min_interval apart, is rewritten as a bucket of whole milliseconds:
//
//	interval  = max(min_interval, or round(duration/max) without one, 1)
//	drip size = max(round(max / (duration/interval)), 1)
//	drip rate = max(round(duration / (max/drip size)), 1)
//	size      = max
//
// round(x) is ⌊x + 1/2⌋. A min_interval alone is a bucket of size 1 that loses one
// drip in that time. A factor f scales a bucket to a size of ⌈size/f⌉ and a drip
// every ⌈f·drip rate⌉ ms: below 1 it relaxes the limit, above 1 it tightens it.
// The rule is then
//
//	rate = drip size per drip rate
//	burst = size
//
// # What differs
//
// Drips leak continuously here: a bucket of 10 that loses 2 every second admits a call
// after half a second, not two after one. So a denied client may be admitted up to one drip
// earlier than there, and no client is admitted later. Over any time the bucket admits the
// same number, up to one drip.
//
// # Names
//
// [Limit.Bucket] converts a Limit to a Bucket, and [Bucket.Scale] that to the Rate and
// Burst of a fastlimit.RuleConfig. In a configuration file these are the settings legacy,
// bucket and factor of a rule.
package legacy

import (
	"fmt"
	"math"
	"time"

	"github.com/fastlimit/fastlimit"
)

// Limit is a definition by calls and time. A nil field was not given, which is not the same
// as 0. All times count in whole milliseconds, rounded down.
type Limit struct {
	// Max is how many calls a client has in Duration, at least 1. It counts only
	// with Duration.
	Max *uint64
	// Duration is the period of Max. 0 means no limit.
	Duration *time.Duration
	// MinInterval is the least time between two calls. Together with Max and Duration it
	// only makes drips coarser, or does nothing if it is shorter than Duration/Max. Alone,
	// it is the limit, and 0 means none.
	MinInterval *time.Duration
}

// Bucket is a definition by drips. The zero value is incomplete: Size is required.
type Bucket struct {
	Size     uint64        // calls from rest, at least 1
	DripSize uint64        // calls that leak at once; 0 means 1
	DripRate time.Duration // time between two drips; 0 means 1 s, at least 1 ms
}

// maxWhole bounds sizes: up to here float64, in which the source calculates, has all whole
// numbers.
const maxWhole = 1 << 53

// Bucket translates l. It returns false if l limits no client: because the duration, or a
// min_interval alone, is 0, or because neither the pair of max and duration nor a
// min_interval is given. Errors are [fastlimit.FieldError]s.
func (l Limit) Bucket() (b Bucket, limited bool, err error) {
	for _, t := range []struct {
		name  string
		given *time.Duration
	}{{"Duration", l.Duration}, {"MinInterval", l.MinInterval}} {
		if t.given != nil && *t.given < 0 {
			return Bucket{}, false, bad(t.name, "want a time above 0", "%v is negative", *t.given)
		}
	}
	switch {
	case l.Max != nil && l.Duration != nil:
		return l.minMax()
	case l.MinInterval != nil && *l.MinInterval > 0:
		interval := max(round(millis(*l.MinInterval)), 1)
		return Bucket{Size: 1, DripSize: 1, DripRate: duration(interval)}, true, nil
	}
	return Bucket{}, false, nil
}

// minMax translates a limit of both max and duration.
func (l Limit) minMax() (Bucket, bool, error) {
	switch {
	case *l.Max < 1:
		return Bucket{}, false, bad("Max", "want at least 1", "0 is less than 1")
	case *l.Max > maxWhole:
		return Bucket{}, false, bad("Max", "want at most 2^53", "%d is too large", *l.Max)
	case *l.Duration == 0:
		return Bucket{}, false, nil
	}
	calls, period := float64(*l.Max), max(millis(*l.Duration), 1)
	interval := round(period / calls)
	if l.MinInterval != nil {
		interval = millis(*l.MinInterval)
	}
	interval = max(interval, 1)
	drip := max(round(calls/(period/interval)), 1)
	every := max(round(period/(calls/drip)), 1)
	if drip > maxWhole || every > millis(math.MaxInt64) { // an interval far beyond the period
		return Bucket{}, false, bad("MinInterval", "want at most Duration", "%v is too long for max %d in %v", *l.MinInterval, *l.Max, *l.Duration)
	}
	return Bucket{Size: *l.Max, DripSize: uint64(drip), DripRate: duration(every)}, true, nil
}

// Scale returns the rate and the burst of a rule for clients with that factor; 1 leaves the
// bucket as it is. If the source has a factor of 0 for users without a limit, do not ask
// the limiter: 0 is an error, as is a negative factor. Errors are [fastlimit.FieldError]s.
// It is fastlimit.New that checks whether the rate can be enforced exactly.
func (b Bucket) Scale(factor float64) (rate fastlimit.Rate, burst uint64, err error) {
	if b.DripSize == 0 {
		b.DripSize = 1
	}
	if b.DripRate == 0 {
		b.DripRate = time.Second
	}
	switch {
	case !(factor > 0) || math.IsInf(factor, 1):
		err = bad("Factor", "want a number above 0", "%v is out of range", factor)
	case b.Size < 1:
		err = bad("Size", "want at least 1", "0 is less than 1")
	case b.Size > maxWhole:
		err = bad("Size", "want at most 2^53", "%d is too large", b.Size)
	case b.DripRate < time.Millisecond:
		err = bad("DripRate", "want at least 1ms", "%v is less than 1ms", b.DripRate)
	}
	if err != nil {
		return fastlimit.Rate{}, 0, err
	}
	size := max(math.Ceil(float64(b.Size)/factor), 1)
	every := math.Ceil(millis(b.DripRate) * factor)
	switch {
	case size > maxWhole:
		err = bad("Factor", "raise it", "%v makes size %d too large", factor, b.Size)
	case every > millis(math.MaxInt64):
		err = bad("Factor", "lower it", "%v makes a drip every %v too slow", factor, b.DripRate)
	}
	return perSecond(fastlimit.Rate{N: b.DripSize, Per: duration(every)}), uint64(size), err
}

// perSecond returns the same rate, in seconds if they hold a whole number of periods.
func perSecond(r fastlimit.Rate) fastlimit.Rate {
	if r.Per <= 0 || time.Second%r.Per != 0 || r.N > maxWhole {
		return r
	}
	return fastlimit.Rate{N: r.N * uint64(time.Second/r.Per), Per: time.Second}
}

// millis returns a time in whole milliseconds.
func millis(d time.Duration) float64 { return float64(d / time.Millisecond) }

// duration is the inverse of millis. It saturates at the longest time.
func duration(ms float64) time.Duration {
	if ms > millis(math.MaxInt64) {
		return math.MaxInt64 / time.Millisecond * time.Millisecond
	}
	return time.Duration(ms) * time.Millisecond
}

// round is Math.round of JavaScript, half up: math.Round differs only below 0, and
// math.RoundToEven at every half.
func round(x float64) float64 { return math.Floor(x + 0.5) }

func bad(name, fix, format string, args ...any) error {
	return &fastlimit.FieldError{Package: "fastlimit/legacy", Field: name, Problem: fmt.Sprintf(format, args...), Fix: fix}
}
