package bucket

import "fmt"

// Algorithm is how a limit counts. Its arithmetic is in this package, behind [Shape], and in
// the stores that run it, behind [Op]. What else depends on it is a switch that the linter
// wants complete (exhaustive:enforce), or asks a trait.
type Algorithm uint8

// The algorithms. The zero value is LeakyBucket.
const (
	LeakyBucket Algorithm = iota
	// TokenBucket is the leaky bucket seen from the other side: tokens are what still fits.
	// Both share their arithmetic, so its Shape, and what a store keeps, is that of
	// LeakyBucket.
	TokenBucket
	// FixedWindow counts units in periods aligned to Unix time.
	FixedWindow
	// SlidingWindow counts units in the same periods, plus the share of the previous
	// period's units that a period ending now would cover.
	SlidingWindow
	// SlidingLog keeps the time of each unit, and so counts the units of any period.
	SlidingLog
	NumAlgorithms // the number of algorithms
)

// traits is what the rest of the module asks about an algorithm.
type traits struct {
	name     string    // as in a configuration, with spaces in place of underscores
	family   Algorithm // those of a family keep the same states
	periodic bool      // see Periodic
	plain    bool      // a bucket's word is all of its state: a table compares no more
}

// algorithms has an entry for each (TestTraits).
var algorithms = [NumAlgorithms]traits{
	LeakyBucket:   {name: "leaky bucket", family: LeakyBucket, plain: true},
	TokenBucket:   {name: "token bucket", family: LeakyBucket, plain: true},
	FixedWindow:   {name: "fixed window", family: FixedWindow, plain: true, periodic: true},
	SlidingWindow: {name: "sliding window", family: SlidingWindow, periodic: true},
	SlidingLog:    {name: "sliding log", family: SlidingLog, periodic: true},
}

func (a Algorithm) String() string {
	if a < NumAlgorithms {
		return algorithms[a].name
	}
	return fmt.Sprintf("algorithm %d", uint8(a))
}

// Periodic reports whether a limit is a number of units per period, without a burst, as for
// windows and logs.
func (a Algorithm) Periodic() bool { return a < NumAlgorithms && algorithms[a].periodic }

// Algorithm returns how buckets of this shape count.
func (s *Shape) Algorithm() Algorithm { return s.algorithm }

// Parameters returns the numbers that distinguish shapes of different limits, the algorithm
// first. Slack is not among them.
func (s *Shape) Parameters() []uint64 {
	all := []uint64{uint64(s.Algorithm()), s.perMicro, s.unit, s.burst, s.period}
	if scale := s.CostScale(); scale > 1 { // also if the bucket is the same: counts are in thousandths
		all = append(all, scale)
	}
	return all
}

// LeakSeconds returns the time in which so many units leak. Memory and windows are planned
// by it: a client that took them must be remembered for so long. It is for buckets only.
func (s *Shape) LeakSeconds(units float64) float64 {
	return units * float64(s.unit) / (1e6 * float64(s.perMicro))
}
