package fastlimit

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/clock"
	"github.com/fastlimit/fastlimit/sketch"
)

// buckets are the exact buckets of one rule on this node. Everything that is
// decided by an exact bucket becomes a Decision here, and the formulas of the
// bucket are reached from here, from the pipeline and from the shared tier
// only: an algorithm is a [bucket.Shape] with a table, not a copy of the
// pipeline. Copies share the buckets.
type buckets struct {
	clock       *clock.Clock
	windowed    bool // shape.Windowed()
	logged      bool // shape.Logged()
	plain       bool // neither: a bucket
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

// sketchTicks converts a time on the limiter's line for the sketch.
func (b *buckets) sketchTicks(now time.Duration) uint64 {
	if !b.plain {
		return b.sketchWindow(now)
	}
	return b.shape.Ticks(now)
}

//go:noinline
func (b *buckets) sketchWindow(now time.Duration) uint64 { return b.shape.SketchTicks(b.ticks(now)) }

//go:noinline
func (b *buckets) windowTicks(now time.Duration) uint64 {
	return b.shape.WindowTicks(b.clock.WallTime(now))
}

// lookup is the TAT of d in the table, for a request that is judged at now. A window that
// has not begun was counted before the store's first answer set the line back (see
// [clock.Clock.ObserveStore]): it is forgotten, or the client would be denied until it begins.
func (b *buckets) lookup(d sketch.Digest, now time.Duration) uint64 {
	tat := b.table.Lookup(d)
	if b.windowed && b.clock.FollowsStore() && b.shape.WindowOf(tat) > b.shape.Window(b.ticks(now)) &&
		b.shape.WindowOf(tat) > b.shape.Window(b.ticks(b.clock.Read().Now)) { // now may be an old reading
		b.table.Reset(d)
		return 0
	}
	return tat
}

// fits reports whether a request fits the bucket of d, whose TAT is tat, as far as this
// node knows. Of a log the word says so for one unit only.
func (b *buckets) fits(d sketch.Digest, tat, ticks, cost uint64) bool {
	return b.shape.Fits(tat, ticks, cost) && (!b.logged || cost <= 1 || tat == 0 || b.table.LogFits(d, ticks, cost))
}

// stands reports whether a denial of the table's, whose bucket has that TAT, stands. One
// that is to be counted itself is for the exact bucket, unless that changes nothing.
func (b *buckets) stands(tat, ticks uint64) bool { return !b.countDenied || b.shape.Full(tat, ticks) }

// take charges cost to d if it fits.
func (b *buckets) take(d sketch.Digest, cost uint64, now time.Duration) Decision {
	for {
		tat, ok := b.table.Take(d, b.ticks(now), cost)
		if ok {
			return b.decisionOn(d, StageExact, true, tat, now, cost)
		}
		// Another request may have charged d after reading the clock later than
		// this one did. The loop ends: each round means that another request
		// was admitted.
		late := b.clock.Late(now)
		if late == now || !b.fits(d, tat, b.ticks(late), cost) {
			if b.countDenied { // unless it fits by now
				tat, ok = b.table.TakeCounted(d, b.ticks(late), cost)
			}
			return b.decisionOn(d, StageExact, ok, tat, late, cost)
		}
		now = late
	}
}

// decisionOn describes the verdict at now of the exact bucket of d, whose TAT is tat.
func (b *buckets) decisionOn(d sketch.Digest, stage Stage, allowed bool, tat uint64, now time.Duration, cost uint64) Decision {
	switch {
	case b.plain:
		return b.decision(stage, allowed, tat, now, cost)
	case b.windowed:
		return b.windowDecision(stage, allowed, tat, now, cost)
	}
	return b.logDecision(d, stage, allowed, tat, now, cost)
}

// decision is decisionOn for a leaky bucket, which needs no more than its TAT.
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

// windowDecision is decisionOn for a rule that counts in windows. A store's window may
// be over by this node's time: then what the client has taken is forgotten here, and
// what did not fit may be taken.
func (b *buckets) windowDecision(stage Stage, allowed bool, tat uint64, now time.Duration, cost uint64) Decision {
	wall := b.clock.WallTime(now)
	ticks := b.shape.WindowTicks(wall)
	d := Decision{Outcome: Outcome{Allowed: allowed, Stage: stage}, Remaining: int64(b.shape.Remaining(tat, ticks))}
	retry, empty := b.shape.Waits(tat, ticks, wall, min(cost, b.shape.Limit()))
	if empty > 0 {
		d.TimeToEmpty = b.clock.Wait(now, empty)
	}
	if !allowed {
		d.deny(cost, b.shape.Limit(), b.clock.Wait(now, max(retry, time.Microsecond)))
	}
	return d
}

// logDecision is decisionOn for a rule that keeps a log, which is asked unless its word
// says it all.
func (b *buckets) logDecision(key sketch.Digest, stage Stage, allowed bool, tat uint64, now time.Duration, cost uint64) Decision {
	ticks := b.ticks(now)
	var free, retry, empty uint64
	if full := b.shape.Level(tat, ticks) > 0; full && cost == 1 { // as of most denials: without a lock
		retry, empty = b.shape.LogWait(tat, ticks), max(tat, b.table.LogUntil(key))-ticks
	} else if free, retry, empty = b.table.Log(key, ticks, min(cost, b.shape.Limit())); full {
		free, retry = 0, max(retry, b.shape.LogWait(tat, ticks)) // also by an answer which the table was not to learn
	}
	d := Decision{Outcome: Outcome{Allowed: allowed, Stage: stage}, Remaining: int64(free), TimeToEmpty: b.shape.Duration(empty)}
	if !allowed {
		d.deny(cost, b.shape.Limit(), b.shape.Duration(max(retry, 1)))
	}
	return d
}

// deny says when a request of that cost in units fits, which does not now.
func (d *Decision) deny(cost, limit uint64, retry time.Duration) {
	if d.RetryAfter = retry; cost > limit {
		d.RetryAfter = bucket.Never
	}
	if cost > 0 { // more were free only where the clock has gone on meanwhile
		d.Remaining = min(d.Remaining, int64(min(cost, limit))-1)
	}
}

// admitUnchecked admits a request without asking its exact bucket.
func admitUnchecked(stage Stage) Decision {
	return Decision{Outcome: Outcome{Allowed: true, Stage: stage}, Remaining: RemainingUnknown}
}
