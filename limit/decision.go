package limit

import (
	"time"
	"unsafe"
)

// Stage names the part of the limiter that decided.
type Stage uint8

// The stages, in the order in which a request meets them. When units are taken, StageBan
// and StageTable only deny, StageFilter and StageSketch only admit, and the others do both.
const (
	StageList     Stage = iota // an allow or deny list in front of all rules: package policy, never a Rule
	StageBan                   // the client is banned: by a rule, or by an operator in front of all rules
	StageTable                 // the table knew the client to be over its limit
	StageFilter                // first time this window that the client is seen
	StageSketch                // below the suspicion threshold
	StageExact                 // an exact bucket decided
	StageFallback              // the shared exact tier was unavailable
	stageCount
)

var stageNames = [stageCount]string{"list", "ban", "table", "filter", "sketch", "exact", "fallback"}

// Stages returns all stages in order.
func Stages() []Stage {
	all := make([]Stage, stageCount)
	for i := range all {
		all[i] = Stage(i)
	}
	return all
}

// String returns the stage's name in metrics and replies.
func (s Stage) String() string {
	if s >= stageCount {
		return "unknown"
	}
	return stageNames[s]
}

// RemainingUnknown is the Remaining of a decision that no exact bucket made.
// Estimates are never shown: they would tell an attacker which keys collide.
const RemainingUnknown int64 = -1

// Outcome is the part of a [Decision] that counters need.
type Outcome struct {
	// Allowed reports whether the request is admitted.
	Allowed bool
	// Degraded reports that the shared exact tier did not answer in time and the rule's
	// failure policy decided.
	Degraded bool
	// Stage is the part of the limiter that decided.
	Stage Stage
}

// Decision is the verdict on one request, with what is known about the client's bucket. It
// is a plain value; the zero value is a denial by a list.
type Decision struct {
	Outcome

	// Remaining is the number of units that would be admitted now, or
	// RemainingUnknown.
	Remaining int64
	// RetryAfter is the time after which a denied request of the same cost would fit if
	// nothing else arrived, or [bucket.Never] if its cost is larger than the burst. For
	// StageBan it is the time until the ban ends. 0 for an admitted request.
	RetryAfter time.Duration
	// TimeToEmpty is the time until the client's bucket is empty, or 0 if that is not
	// known.
	TimeToEmpty time.Duration
}

// A Decision has four fields of four words in all, so that the compiler keeps it in
// registers. With one more it would be copied through memory 16 bytes at a time right after
// it was written in smaller pieces, which stalls for 5 ns at every call level
// (BenchmarkHotDenied).
var _ [0]struct{} = [unsafe.Sizeof(Decision{}) - 32]struct{}{}
