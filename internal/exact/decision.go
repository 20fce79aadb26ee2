package exact

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// Decision describes the decision at now of the exact bucket of d, whose TAT is tat.
func (b *Buckets) Decision(d sketch.Digest, stage limit.Stage, allowed bool, tat uint64, now time.Duration, cost uint64) limit.Decision {
	switch {
	case b.Plain:
		return b.LeakyDecision(stage, allowed, tat, now, cost)
	case b.windowed:
		return b.windowDecision(stage, allowed, tat, now, cost)
	}
	return b.logDecision(d, stage, allowed, tat, now, cost)
}

// LeakyDecision is Decision for a leaky bucket, which needs only its TAT.
func (b *Buckets) LeakyDecision(stage limit.Stage, allowed bool, tat uint64, now time.Duration, cost uint64) limit.Decision {
	ticks := b.Shape.Ticks(now)
	d := limit.Decision{
		Outcome:     limit.Outcome{Allowed: allowed, Stage: stage},
		Remaining:   int64(b.Shape.Remaining(tat, ticks)),
		TimeToEmpty: b.Shape.TimeToEmpty(tat, ticks),
	}
	if !allowed {
		d.RetryAfter = b.Shape.RetryAfter(tat, ticks, cost)
	}
	return d
}

// windowDecision is Decision for a rule that counts in windows. A store's window may be over by this node's
// time: then the client's units are forgotten here, and what did not fit may be taken.
func (b *Buckets) windowDecision(stage limit.Stage, allowed bool, tat uint64, now time.Duration, cost uint64) limit.Decision {
	wall := b.Clock.WallTime(now)
	ticks := b.Shape.WindowTicks(wall)
	d := limit.Decision{Outcome: limit.Outcome{Allowed: allowed, Stage: stage}, Remaining: int64(b.Shape.Remaining(tat, ticks))}
	retry, empty := b.Shape.Waits(tat, ticks, wall, min(cost, b.Shape.Limit()))
	if empty > 0 {
		d.TimeToEmpty = b.Clock.Wait(now, empty)
	}
	if !allowed {
		deny(&d, cost, b.Shape.Limit(), b.Clock.Wait(now, max(retry, time.Microsecond)))
	}
	return d
}

// logDecision is Decision for a rule that keeps a log. It reads the log unless its word is enough.
func (b *Buckets) logDecision(key sketch.Digest, stage limit.Stage, allowed bool, tat uint64, now time.Duration, cost uint64) limit.Decision {
	ticks := b.Ticks(now)
	var free, retry, empty uint64
	if full := b.Shape.Level(tat, ticks) > 0; full && cost == 1 { // true for most denials: without a lock
		retry, empty = b.Shape.LogWait(tat, ticks), max(tat, b.Table.LogUntil(key))-ticks
	} else if free, retry, empty = b.Table.Log(key, ticks, min(cost, b.Shape.Limit())); full {
		free, retry = 0, max(retry, b.Shape.LogWait(tat, ticks)) // also for an answer that was kept out of the table
	}
	d := limit.Decision{Outcome: limit.Outcome{Allowed: allowed, Stage: stage}, Remaining: int64(free), TimeToEmpty: b.Shape.Duration(empty)}
	if !allowed {
		deny(&d, cost, b.Shape.Limit(), b.Shape.Duration(max(retry, 1)))
	}
	return d
}

// deny fills in when a request of that cost in units will fit; at most most units ever do.
func deny(d *limit.Decision, cost, most uint64, retry time.Duration) {
	if d.RetryAfter = retry; cost > most {
		d.RetryAfter = bucket.Never
	}
	if cost > 0 { // more are free only if the clock has advanced meanwhile
		d.Remaining = min(d.Remaining, int64(min(cost, most))-1)
	}
}
