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
	clock       *clock
	windowed    bool // shape.Windowed()
	countDenied bool // of a window
	shape       bucket.Shape
	table       bucket.Table
}

// ticks converts a time on the limiter's line.
func (b *buckets) ticks(now time.Duration) uint64 {
	if b.windowed {
		return b.windowTicks(now)
	}
	return b.shape.Ticks(now)
}

//go:noinline
func (b *buckets) windowTicks(now time.Duration) uint64 {
	return b.shape.WindowTicks(b.clock.wallTime(now))
}

// stands reports whether a denial of the table's, whose bucket has that TAT, stands. One
// that is to be counted itself is for the exact bucket, unless that is full anyhow.
func (b *buckets) stands(tat, ticks uint64) bool {
	return !b.countDenied || b.shape.Level(tat, ticks) >= b.shape.Limit()
}

// take charges cost to d if it fits.
func (b *buckets) take(d sketch.Digest, cost uint64, now time.Duration) Decision {
	for {
		tat, ok := b.table.Take(d, b.ticks(now), cost)
		if ok {
			return b.decision(StageExact, true, tat, now, cost)
		}
		// Another request may have charged d after reading the clock later than
		// this one did. The loop ends: each round means that another request
		// was admitted.
		late := b.clock.late(now)
		if late == now || !b.shape.Fits(tat, b.ticks(late), cost) {
			if b.countDenied { // unless it fits by now
				tat, ok = b.table.TakeCounted(d, b.ticks(late), cost)
			}
			return b.decision(StageExact, ok, tat, late, cost)
		}
		now = late
	}
}

// decision describes the verdict at now of an exact bucket whose TAT is tat.
func (b *buckets) decision(stage Stage, allowed bool, tat uint64, now time.Duration, cost uint64) Decision {
	ticks := b.ticks(now)
	if b.windowed {
		return b.windowDecision(stage, allowed, tat, now, cost)
	}
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

// windowDecision is decision for a rule that counts in windows. What the client has
// taken is forgotten, and what did not fit may be taken, when the window ends that
// the verdict is on.
func (b *buckets) windowDecision(stage Stage, allowed bool, tat uint64, now time.Duration, cost uint64) Decision {
	wall := b.clock.wallTime(now)
	ticks := b.shape.WindowTicks(wall)
	if !allowed && stage == StageExact && tat > 0 && cost <= b.shape.Limit() {
		ticks = min(ticks, bucket.Begin(tat)) // a store's window that is over by this node's time
	}
	d := Decision{Outcome: Outcome{Allowed: allowed, Stage: stage}, Remaining: int64(b.shape.Remaining(tat, ticks))}
	// A store's window may end a little later than this node's time says.
	left := b.clock.wait(now, max(b.shape.WindowEnd(max(tat, ticks))-wall, time.Microsecond))
	if b.shape.Level(tat, ticks) > 0 {
		d.TimeToEmpty = left
	}
	switch {
	case allowed:
	case cost > b.shape.Limit():
		d.RetryAfter = bucket.Never
	default:
		d.RetryAfter = left
	}
	return d
}

// admitUnchecked admits a request without asking its exact bucket.
func admitUnchecked(stage Stage) Decision {
	return Decision{Outcome: Outcome{Allowed: true, Stage: stage}, Remaining: RemainingUnknown}
}
