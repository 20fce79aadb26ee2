package clock

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// anchor is the point that a wallLine counts from. It is immutable, so replacing it takes 48 bytes a second:
// all that a decision allocates without a store.
type anchor struct {
	at, base time.Duration
	surplus  time.Duration // how far base is ahead, at least 0
	patience time.Duration // how far a store's clock may be behind base - surplus
	source   wallSource
}

// wallSource is where an anchor comes from.
type wallSource uint8

const (
	wallSet   wallSource = iota // SetStart: never checked again
	wallClock                   // this machine's clock, checked every second
	wallGuess                   // this machine's clock, until the store has sent its own
	wallStore                   // a store's clock, from which this machine's may drift
)

// sourceOf is the first source of a line, with a store or without.
func sourceOf(stored bool) wallSource {
	if stored {
		return wallGuess // the first answer may set the line back
	}
	return wallClock
}

const (
	wallEvery  = time.Second
	slowShift  = 3 // an eighth
	driftShift = bucket.DriftShift
	maxLead    = time.Second // clocks that differ by more were set

	highAge = 3 * wallEvery // the most age of the answer that a line is anchored by
)

// wall is the wall time at a time of the clock. For a reading from before the anchor it is at least what the
// line said then, whatever its speed was.
func (a *anchor) wall(now time.Duration) time.Duration {
	since := now - a.at
	if since < 0 {
		return a.base + since - since>>slowShift
	}
	wall := a.base + since - min(since>>slowShift, a.surplus)
	if a.source == wallStore {
		wall += drift(since)
	}
	return wall
}

// drift is how far two clocks may drift apart in a time.
func drift(in time.Duration) time.Duration { return min(in>>driftShift, maxLead) }

// wait is how long the line takes from now to advance by left. Waiting that long is enough unless the line is
// slowed down meanwhile.
//
// With a store it is how long the store's clock takes to get where the line will be, since the window may end
// that much later there. That clock is behind the line by what the line is ahead of the answer it follows, by
// the way of that answer's operation to the store, and by what clocks drift apart since and until then.
func (a *anchor) wait(now, left time.Duration) time.Duration {
	since := max(now-a.at, 0)
	surplus := a.surplus - min(since>>slowShift, a.surplus)
	if a.source == wallStore {
		left += surplus + drift(since) + a.patience
		return left + drift(highAge+since+left+maxLead)
	}
	const rounding = 2 // ns, from the shifts in wall
	return left + min(left/(1<<slowShift-1)+rounding, surplus)
}
