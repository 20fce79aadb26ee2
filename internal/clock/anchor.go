package clock

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// anchor is what a wallLine was told last. Immutable, so that telling it takes 48 bytes
// a second: all that a decision allocates without a store.
type anchor struct {
	at, base time.Duration
	surplus  time.Duration // what base is ahead, at least 0
	patience time.Duration // by how much a store's clock may be behind base - surplus
	source   wallSource
}

// wallSource is what an anchor was taken from.
type wallSource uint8

const (
	wallSet   wallSource = iota // SetStart: never looked at again
	wallClock                   // this machine's: looked at every second
	wallGuess                   // this machine's, until the store has said what its own is
	wallStore                   // a store's, with which this machine's may drift apart
)

// sourceOf is what a line begins with, with a store or without.
func sourceOf(stored bool) wallSource {
	if stored {
		return wallGuess // the first answer may set it back
	}
	return wallClock
}

const (
	wallEvery  = time.Second
	slowShift  = 3 // an eighth
	driftShift = bucket.DriftShift
	maxLead    = time.Second // clocks that differ by more were set

	highAge = 3 * wallEvery // how old the answer may be by which a line was anchored
)

// wall is the wall time at a time of the clock. A reading from before the anchor gets
// what the line said then at least, whichever speed it had.
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

// drift is what two clocks may drift apart in a time.
func drift(in time.Duration) time.Duration { return min(in>>driftShift, maxLead) }

// wait is how long the line takes from now to go on by left. Waiting for it is long
// enough unless the line is slowed down meanwhile.
//
// With a store it is how long that store's clock takes to where the line is then: by so
// much the end of a window may be later there. The clock is behind the line by what the
// line is ahead of the answer that it goes by, by the way of that answer's operation to
// the store, and by what clocks drift apart since and until then.
func (a *anchor) wait(now, left time.Duration) time.Duration {
	since := max(now-a.at, 0)
	surplus := a.surplus - min(since>>slowShift, a.surplus)
	if a.source == wallStore {
		left += surplus + drift(since) + a.patience
		return left + drift(highAge+since+left+maxLead)
	}
	const rounding = 2 // ns, of the shifts of wall
	return left + min(left/(1<<slowShift-1)+rounding, surplus)
}
