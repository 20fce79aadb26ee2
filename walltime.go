package fastlimit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// wallLine translates the time line of a clock to the time by which windows begin,
// as a time since 1970. It does not step back, whatever it is told:
//
//	wall(now) = base + (now - at) - min((now - at)/8, surplus) + lead
//
// Where it turns out to be ahead, it goes slower by an eighth until it is right. So
// a window lasts 8/7 of its period at most, which the first-seen filter knows
// ([RulePlan.window]). Where it is behind it jumps.
//
// Without a store it follows the wall clock, which it looks at once a second. With
// one it follows the store's clock, of which it must never be behind: a verdict of
// this node on a window must not outlive that window at the store. An answer proves
// that the store's clock had not reached what it says when its operation was sent,
// so that is an upper bound, by the round trip too high at most. The highest of the
// last second or two counts: several servers have several clocks. Between answers it
// leads by what clocks drift apart. Until the first answer this machine's clock has
// to do, and that answer may set the line back: nothing was learnt from the store yet.
//
// With a [ManualClock] it is what SetStart says.
type wallLine struct {
	anchor atomic.Pointer[anchor]   // nil: times of the clock are times since 1970
	end    atomic.Pointer[clockEnd] // the last wall time that rules can count; nil as long as no limiter has the clock

	mu       sync.Mutex // guards what follows; never held while waiting
	high     [2]time.Duration
	turn     time.Duration // when high[0] begins, on the clock
	patience time.Duration // the longest way of an operation to the store
}

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

// SetStart says at which wall time the clock stood at 0, for rules that count in
// windows: those begin by the wall time. Without it the clock's 0 is 1970-01-01
// 00:00 UTC. Set it before the clock moves; later only to a later time: one that
// is earlier slows windows down.
func (c *ManualClock) SetStart(t time.Time) {
	c.wall.mu.Lock()
	defer c.wall.mu.Unlock()
	now := c.Now()
	c.wall.moveLocked(now, time.Duration(t.UnixNano())+now, wallSet)
}

// moveLocked makes the line go on from now with wall, or towards it where it is
// ahead of that.
func (w *wallLine) moveLocked(now, wall time.Duration, source wallSource) {
	old := w.anchor.Load()
	if old != nil && source != wallSet && w.beyond(wall) {
		wall = old.wall(now)
	}
	a := &anchor{at: now, base: wall, patience: w.patience, source: source}
	if old != nil {
		if was := old.wall(now); was > wall {
			a.base, a.surplus = was, was-wall
		}
	}
	w.anchor.Store(a)
}

// beyond reports whether a wall time is one that no window has: a clock that says so is wrong.
func (w *wallLine) beyond(wall time.Duration) bool {
	end := w.end.Load()
	return end != nil && wall > end.at
}

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

// startWall has the line follow this machine's clock, or a store's, from the wall
// time on. What a store has said stays: this machine's clock may differ by anything,
// and the next answer would set the line back to where it was.
func (c *clock) startWall(source wallSource) {
	if !c.machine {
		return
	}
	c.wall.mu.Lock()
	defer c.wall.mu.Unlock()
	if a := c.wall.anchor.Load(); source == wallGuess && a != nil && a.source == wallStore {
		return
	}
	now, wall := c.wallNow()
	c.wall.moveLocked(now, wall, source)
}

// wallTime is the wall time at a time of the clock.
func (c *clock) wallTime(now time.Duration) time.Duration {
	a := c.wall.anchor.Load()
	if a == nil {
		return now
	}
	if a.source == wallClock && now-a.at >= wallEvery && c.wall.mu.TryLock() {
		if c.wall.anchor.Load().source == wallClock { // no store meanwhile
			at, wall := c.wallNow()
			c.wall.moveLocked(at, wall, wallClock)
		}
		c.wall.mu.Unlock()
		a = c.wall.anchor.Load()
	}
	return a.wall(now)
}

// wallAt is wallTime of a time that nobody is judged by.
func (c *clock) wallAt(now time.Duration) time.Duration {
	if a := c.wall.anchor.Load(); a != nil {
		return a.wall(now)
	}
	return now
}

// followsStore reports whether a store has said what its clock is.
func (c *clock) followsStore() bool {
	a := c.wall.anchor.Load()
	return a != nil && a.source == wallStore
}

// wait is how long it takes from now until the wall time has gone on by left, by the
// clock of a store too.
func (c *clock) wait(now, left time.Duration) time.Duration {
	if a := c.wall.anchor.Load(); a != nil {
		return a.wait(now, left)
	}
	return left
}

// wallNow reads the machine's clocks at once: the time on the line and the wall time.
func (c *clock) wallNow() (now, wall time.Duration) {
	if c.readWall != nil {
		return c.readWall()
	}
	at := time.Now()
	return at.Sub(c.start), time.Duration(at.UnixNano())
}

// observeStore tells the line what a store's clock said, in µs since 1970, when it
// carried out an operation that was sent at sent, no later than patience after that,
// and answered at got. Answers that took longer than patience say little, and count only
// where they say more.
func (c *clock) observeStore(micros uint64, sent, got, patience time.Duration) {
	w := &c.wall
	ahead := time.Duration(micros)*time.Microsecond - sent // of the clock
	if w.beyond(got + ahead) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.patience = patience
	if got-w.turn >= wallEvery {
		w.high = [2]time.Duration{ahead, w.high[0]}
		if got-w.turn >= 2*wallEvery {
			w.high[1] = ahead
		}
		w.turn = got
	} else if got-sent <= patience {
		w.high[0] = max(w.high[0], ahead)
	}
	a := w.anchor.Load()
	if a != nil && a.source == wallClock {
		return // late: there is no store any more
	}
	if a == nil || a.source == wallGuess {
		// The one time that it may step back: nothing was learnt from the store yet.
		w.anchor.Store(&anchor{at: got, base: got + ahead, patience: patience, source: wallStore})
		w.high, w.turn = [2]time.Duration{ahead, ahead}, got
		return
	}
	switch high := max(w.high[0], w.high[1]); {
	case a.wall(got)-got < ahead:
		w.moveLocked(got, got+ahead, wallStore)
	case got-a.at >= wallEvery:
		w.moveLocked(got, got+max(high, ahead), wallStore)
	}
}
