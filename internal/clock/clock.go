// Package clock is the time of a limiter: a line of times since some start, which never steps back, and for
// each of them the wall time by which windows begin. The line is either the machine's monotonic clock or is
// set by its owner. The wall time follows the machine's wall clock or a store's; it does not step back
// either, but slows down until it is right.
//
// It guarantees that no time is used that a rule cannot count ([End]), and that a reading which another one
// has overtaken can be recognized ([Clock.Late]).
package clock

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// Clock is a limiter's time line, which never steps back. After [Clock.StartMachine] it is the machine's
// monotonic clock. Otherwise it moves only when set, and the zero value reads 0. It is safe for concurrent
// use.
//
// A clock that is set ignores times before its latest one, by however much. So after a caller's clock was set
// back the line stands still until it has caught up, and one reading far in the future makes all later ones
// count as that one.
//
// Readings of the machine's clock count as themselves, so that cores write nothing; the line follows them to
// within a grain. Such a reading is old only if its goroutine was overtaken between reading the clock and
// using it. A client who would be denied for that is judged again by Late. Package fastlimit says what that
// means for P1.
//
// All fields that every request reads are in one cache line, which is written once per grain.
type Clock struct {
	latest atomic.Int64 // the latest time on the line, in ns

	machine bool      // follows the machine's clock. Immutable.
	start   time.Time // of the machine's clock. Immutable.

	end atomic.Pointer[End] // nil while no limiter has the clock

	wall wallLine // used only by rules that count in windows
	// readWall replaces time.Now in tests: it returns a time on the line and the wall time. Immutable.
	readWall func() (now, wall time.Duration)
}

// End is the last time that every rule can count in ticks, as set by the first rule to reach its end
// ([github.com/fastlimit/fastlimit/bucket.Shape.LastTime]).
type End struct {
	At   time.Duration
	Rule string // that rule, for messages
}

const grain = time.Millisecond

// StartMachine makes c follow the machine's clock from now on.
func (c *Clock) StartMachine() { c.machine, c.start = true, time.Now() }

// IsMachine reports whether it follows the machine's clock.
func (c *Clock) IsMachine() bool { return c.machine }

// Set moves a clock that does not follow the machine's to now, for all later calls. A time before the latest
// one is ignored. Set panics on a time past the clock's end.
func (c *Clock) Set(now time.Duration) {
	l, end := c.latest.Load(), c.end.Load()
	if end != nil && now > end.At {
		end.passed("the time %v was brought, which is longer than %s: bring the time since a recent start, not since 1970", now)
	}
	c.checkWindows(now)
	// Two may set it, so this is a compare-and-swap; on amd64 a Store, which is an
	// XCHG, costs nearly the same (2.8 and 2.4 ns, go1.26).
	if int64(now) > l && !c.latest.CompareAndSwap(l, int64(now)) {
		c.advance(now)
	}
}

// Latest is the latest time on the line.
func (c *Clock) Latest() time.Duration { return time.Duration(c.latest.Load()) }

// EndBy makes the clock, which limiters may share, end then at the latest: the line, and the wall time of
// rules that count in windows.
func (c *Clock) EndBy(line, wall *End) {
	line.ends(&c.end)
	wall.ends(&c.wall.end)
}

func (e *End) ends(first *atomic.Pointer[End]) {
	for old := first.Load(); old == nil || e.At < old.At; old = first.Load() {
		if first.CompareAndSwap(old, e) {
			return
		}
	}
}

// LastTime is the latest time on the line before the clock's end, by the wall time now. The
// clock must have an end.
func (c *Clock) LastTime() time.Duration {
	at, windows := c.end.Load().At, c.wall.end.Load().At
	if windows == math.MaxInt64 {
		return at
	}
	now := c.Elapsed()
	return min(at, windows-(c.WallAt(now)-now))
}

// checkWindows panics if windows end before a time of the line.
func (c *Clock) checkWindows(now time.Duration) {
	if end := c.wall.end.Load(); end != nil && end.At < math.MaxInt64 && c.WallAt(now) > end.At {
		end.passed("the wall time is 1970 and %v, which is longer than %s: give it a period of 2.2 s or more", c.WallAt(now))
	}
}

// Now is the time of a request that is made now.
func (c *Clock) Now() time.Duration {
	if c.machine {
		return c.readMachine()
	}
	return time.Duration(c.latest.Load())
}

func (c *Clock) readMachine() time.Duration { return c.Follow(time.Since(c.start)) }

// Elapsed reads a clock that may not belong to a limiter yet and so has no end. It moves nothing.
func (c *Clock) Elapsed() time.Duration {
	if c.machine {
		return c.Late(time.Since(c.start))
	}
	return time.Duration(c.latest.Load())
}

// OnLine is the time on the line at which the machine's clock was read. It moves nothing.
func (c *Clock) OnLine(at time.Time) time.Duration { return at.Sub(c.start) }

// Follow has the line follow a reading of the machine's clock, made for a
// request, and returns the time at which to judge it.
func (c *Clock) Follow(now time.Duration) time.Duration {
	if uint64(now)-uint64(c.latest.Load()) <= uint64(grain) {
		return now
	}
	return c.followFar(now)
}

// followFar is Follow for a reading that was overtaken, or is the first in its grain.
func (c *Clock) followFar(now time.Duration) time.Duration {
	if now < 0 {
		return 0 // read before the limiter was made
	}
	if end := c.end.Load(); now > end.At {
		end.passed("this limiter was made %v ago, which is longer than %s: make a new one", now)
	}
	c.checkWindows(now)
	c.advance(now)
	return now
}

// advance moves the line to now, unless it is there already.
func (c *Clock) advance(now time.Duration) {
	for l := c.latest.Load(); int64(now) > l; l = c.latest.Load() {
		if c.latest.CompareAndSwap(l, int64(now)) {
			break // else another reading was faster, and may be far older
		}
	}
}

func (e *End) passed(format string, now time.Duration) {
	panic(fmt.Sprintf("BUG: fastlimit: "+format, now, e.Rule))
}

// Reading is one reading of the machine's clock, for work that does not belong
// to one request.
type Reading struct {
	At  time.Time
	Now time.Duration // the same on the time line, or the latest time if that is later
}

// Read reads the machine's clock. It moves nothing.
func (c *Clock) Read() Reading {
	at := time.Now()
	return Reading{at, c.Late(at.Sub(c.start))}
}

// Late is the time by which to judge again a request that was read at now and does not fit then: the latest
// time.
func (c *Clock) Late(now time.Duration) time.Duration {
	return max(now, time.Duration(c.latest.Load()))
}
