package fastlimit

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/sketch"
)

// buckets are the exact buckets of one rule on this node. Everything that is
// decided by an exact bucket becomes a Decision here, and the formulas of the
// bucket are reached from here, from the pipeline and from the shared tier
// only: an algorithm is a [bucket.Shape] with a table, not a copy of the
// pipeline. Copies share the buckets.
type buckets struct {
	clock *clock
	shape bucket.Shape
	table bucket.Table
}

// take charges cost to d if it fits.
func (b *buckets) take(d sketch.Digest, cost uint64, now time.Duration) Decision {
	for {
		tat, ok := b.table.Take(d, b.shape.Ticks(now), cost)
		if ok {
			return b.decision(StageExact, true, tat, now, cost)
		}
		// Another request may have charged d after reading the clock later than
		// this one did. The loop ends: each round means that another request
		// was admitted.
		late := b.clock.late(now)
		if late == now || !b.shape.Fits(tat, b.shape.Ticks(late), cost) {
			return b.decision(StageExact, false, tat, late, cost)
		}
		now = late
	}
}

// decision describes the verdict at now of an exact bucket whose TAT is tat.
func (b *buckets) decision(stage Stage, allowed bool, tat uint64, now time.Duration, cost uint64) Decision {
	ticks := b.shape.Ticks(now)
	d := Decision{
		Outcome:     Outcome{Allowed: allowed, Stage: stage},
		Remaining:   int64(b.shape.Remaining(tat, ticks)),
		TimeToEmpty: b.shape.TimeToEmpty(tat, ticks),
	}
	if !allowed {
		d.RetryAfter = b.shape.RetryAfter(tat, ticks, cost)
	}
	return d
}

// admitUnchecked admits a request without asking its exact bucket.
func admitUnchecked(stage Stage) Decision {
	return Decision{Outcome: Outcome{Allowed: true, Stage: stage}, Remaining: RemainingUnknown}
}
