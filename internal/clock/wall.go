package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// wallLine translates the time line of a clock to the time by which windows begin, a time since 1970. It
// never steps back, whatever its source says:
//
//	wall(now) = base + (now - at) - min((now - at)/8, surplus) + lead
//
// If it turns out to be ahead, it runs an eighth slower until it is right. So a window lasts at most 8/7 of
// its period, which the first-seen filter allows for (fastlimit.RulePlan.window). If it is behind, it jumps.
//
// Without a store it follows the wall clock, which it checks once a second. With one it follows the store's
// clock and must never be behind it, since a denial of this node for a window must not outlive that window at
// the store. An answer proves that the store's clock had not reached the time in it when the operation was
// sent: an upper bound, too high by at most the round trip. The highest of the last second or two counts,
// since several servers have several clocks. Between answers it leads by what clocks drift apart. Until the
// first answer it uses this machine's clock, and only that answer may set it back.
//
// For a clock that is set, SetStart sets it.
type wallLine struct {
	anchor atomic.Pointer[anchor] // nil: times of the clock are times since 1970
	end    atomic.Pointer[End]    // the last wall time that rules can count; nil while no limiter has the clock

	mu        sync.Mutex // guards what follows; never held while waiting
	high      [2]time.Duration
	highSince time.Duration // when high[0] began, on the clock
	patience  time.Duration // the longest way of an operation to the store
}

// SetStart sets the wall time at which a clock that does not follow the machine's read 0. The default is
// 1970-01-01 00:00 UTC. Set it before the clock moves, later only to a later time: an earlier one slows
// windows down.
func (c *Clock) SetStart(t time.Time) {
	c.wall.mu.Lock()
	defer c.wall.mu.Unlock()
	now := c.Latest()
	c.wall.moveLocked(now, time.Duration(t.UnixNano())+now, wallSet)
}

// moveLocked makes the line continue from now at wall, or approach it if the line is ahead of that.
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

// beyond reports whether a wall time is later than any window: the clock that says so is wrong.
func (w *wallLine) beyond(wall time.Duration) bool {
	end := w.end.Load()
	return end != nil && wall > end.At
}

// PastWindows reports whether a wall time is later than any window.
func (c *Clock) PastWindows(wall time.Duration) bool { return c.wall.beyond(wall) }

// StartWall makes the wall time follow this machine's clock or a store's from now on. What a store has said
// stays: this machine's clock may differ by anything, and the next answer would set the line back to where it
// was. It does nothing unless the clock follows the machine's.
func (c *Clock) StartWall(stored bool) {
	if !c.machine {
		return
	}
	c.wall.mu.Lock()
	defer c.wall.mu.Unlock()
	source := sourceOf(stored)
	if a := c.wall.anchor.Load(); source == wallGuess && a != nil && a.source == wallStore {
		return
	}
	now, wall := c.wallNow()
	c.wall.moveLocked(now, wall, source)
}

// Resume makes the clock of a new limiter, if it follows the machine's, continue from the time now of a
// state, which was age ago at the time at. wall is what the line of windows said then, by a store's clock if
// there is one. A clock that is set is set to now.
func (c *Clock) Resume(at time.Time, now, age, wall time.Duration, stored bool) {
	c.advance(now + age)
	if !c.machine {
		return
	}
	c.start = at.Add(-(now + age))
	c.wall.anchor.Store(&anchor{at: now, base: wall, source: sourceOf(stored)})
	c.StartWall(stored)
}

// FollowWall is for tests: the wall time follows their clock instead of this machine's. read returns a time
// on the line and the wall time then. It is called once a second, first at 1 s on the line or later.
func (c *Clock) FollowWall(read func() (now, wall time.Duration)) {
	c.readWall = read
	c.wall.anchor.Store(&anchor{source: wallClock})
}

// WallTime is the wall time at a time of the clock.
func (c *Clock) WallTime(now time.Duration) time.Duration {
	a := c.wall.anchor.Load()
	if a == nil {
		return now
	}
	if a.source == wallClock && now-a.at >= wallEvery && c.wall.mu.TryLock() {
		if c.wall.anchor.Load().source == wallClock { // no store has answered meanwhile
			at, wall := c.wallNow()
			c.wall.moveLocked(at, wall, wallClock)
		}
		c.wall.mu.Unlock()
		a = c.wall.anchor.Load()
	}
	return a.wall(now)
}

// WallAt is WallTime for a time that judges nobody.
func (c *Clock) WallAt(now time.Duration) time.Duration {
	if a := c.wall.anchor.Load(); a != nil {
		return a.wall(now)
	}
	return now
}

// FollowsStore reports whether a store's clock is known.
func (c *Clock) FollowsStore() bool {
	a := c.wall.anchor.Load()
	return a != nil && a.source == wallStore
}

// Wait is how long it takes from now until the wall time has advanced by left, by a store's clock too.
func (c *Clock) Wait(now, left time.Duration) time.Duration {
	if a := c.wall.anchor.Load(); a != nil {
		return a.wait(now, left)
	}
	return left
}

// wallNow reads the machine's clocks at once: the time on the line and the wall time.
func (c *Clock) wallNow() (now, wall time.Duration) {
	if c.readWall != nil {
		return c.readWall()
	}
	at := time.Now()
	return c.OnLine(at), time.Duration(at.UnixNano())
}

// ObserveStore records what a store's clock said, in µs since 1970, when it carried out an operation that was
// sent at sent, at most patience later, and answered at got. Answers that took longer than patience say
// little, and count only if they say more.
func (c *Clock) ObserveStore(micros uint64, sent, got, patience time.Duration) {
	w := &c.wall
	ahead := time.Duration(micros)*time.Microsecond - sent // of the clock
	if w.beyond(got + ahead) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.patience = patience
	if got-w.highSince >= wallEvery {
		w.high = [2]time.Duration{ahead, w.high[0]}
		if got-w.highSince >= 2*wallEvery {
			w.high[1] = ahead
		}
		w.highSince = got
	} else if got-sent <= patience {
		w.high[0] = max(w.high[0], ahead)
	}
	a := w.anchor.Load()
	if a != nil && a.source == wallClock {
		return // late: the store is gone
	}
	if a == nil || a.source == wallGuess {
		// The one time that it may step back: nothing was known from the store yet.
		w.anchor.Store(&anchor{at: got, base: got + ahead, patience: patience, source: wallStore})
		w.high, w.highSince = [2]time.Duration{ahead, ahead}, got
		return
	}
	switch high := max(w.high[0], w.high[1]); {
	case a.wall(got)-got < ahead:
		w.moveLocked(got, got+ahead, wallStore)
	case got-a.at >= wallEvery:
		w.moveLocked(got, got+max(high, ahead), wallStore)
	}
}
