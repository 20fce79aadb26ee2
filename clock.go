package fastlimit

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// clock is a limiter's time line. It never steps back. It is either the
// machine's monotonic clock or a [ManualClock].
//
// A time that a ManualClock is set to counts only if it is the latest so far: an
// older one, by however much, moves nothing. A caller's clock that was set back
// thus stands still until it has caught up, and one reading far in the future
// makes all later ones count as that one.
//
// Readings of the machine's clock count as themselves, so that cores have
// nothing to write; the line follows them to within clockGrain. Such a reading
// is old only if its goroutine was overtaken between reading the clock and
// using it. Whoever would be denied for that is judged again by late. The
// package comment says what that means for P1.
//
// All fields that every request reads are in one cache line, which is written once in
// clockGrain.
type clock struct {
	latest atomic.Int64 // the latest time on the line, in ns

	machine bool      // whose clock it is. Immutable.
	start   time.Time // of the machine's clock. Immutable.

	end atomic.Pointer[clockEnd] // nil as long as no limiter has the clock

	wall wallLine // only rules that count in windows have use for it
	// readWall, in tests, is instead of time.Now: a time on the line and the wall
	// time. Immutable.
	readWall func() (now, wall time.Duration)
}

// clockEnd is the last time that every rule can count in ticks, since its first
// can ([bucket.Shape.LastTime]).
type clockEnd struct {
	at   time.Duration
	rule string // which rule that is, for messages
}

const clockGrain = time.Millisecond

// ManualClock is a clock that moves only when it is told to: for tests, and for
// judging what has happened before, such as a log. Put it into [Config.Clock].
// It tells the time since an arbitrary start; the zero value stands at 0. It is
// safe for concurrent use, and several limiters may share one.
type ManualClock struct{ clock }

// Set moves the clock to now, for all calls from then on. A time older than the
// latest one moves nothing: so bring a monotonic clock. With one that is set
// back by an hour no bucket leaks for an hour, and after a single time that is
// an hour ahead nothing leaks for an hour. Set panics on a time past
// [Limiter.LastTime], at the earliest four years.
func (c *ManualClock) Set(now time.Duration) {
	l, end := c.latest.Load(), c.end.Load()
	if end != nil && now > end.at {
		end.passed("the time %v was brought, which is longer than %s: bring the time since a recent start, not since 1970", now)
	}
	c.checkWindows(now)
	// Two may set it, so this is a compare-and-swap; on amd64 a Store, which is an
	// XCHG, costs nearly the same (2.8 and 2.4 ns, go1.26).
	if int64(now) > l && !c.latest.CompareAndSwap(l, int64(now)) {
		c.advance(now)
	}
}

// Now is the time that the clock was set to last.
func (c *ManualClock) Now() time.Duration { return time.Duration(c.latest.Load()) }

// startMachine makes c the machine's clock, from now on.
func (c *clock) startMachine() { c.machine, c.start = true, time.Now() }

// endOf is the last time on the line that all of the rules can count, and the last wall time of
// those that count in windows.
func endOf(rules []RulePlan) (line, wall *clockEnd) {
	line, wall = &clockEnd{at: math.MaxInt64, rule: "any time"}, &clockEnd{at: math.MaxInt64}
	consider := func(all []RulePlan) {
		for i := range all {
			rp, end := &all[i], line
			if rp.shape.Windowed() {
				end = wall
			}
			if at := rp.shape.LastTime(); at < end.at {
				*end = clockEnd{at, fmt.Sprintf("rule %q can count at %v", rp.Config.Name, rp.Config.Rate)}
			}
		}
	}
	for i := range rules {
		consider(rules[i : i+1])
		consider(rules[i].Tiers)
	}
	return line, wall
}

// endBy ends the clock, which limiters may share, by then at the latest.
func (c *clock) endBy(line, wall *clockEnd) {
	line.ends(&c.end)
	wall.ends(&c.wall.end)
}

func (e *clockEnd) ends(first *atomic.Pointer[clockEnd]) {
	for old := first.Load(); old == nil || e.at < old.at; old = first.Load() {
		if first.CompareAndSwap(old, e) {
			return
		}
	}
}

// checkWindows panics if windows end before a time of the line.
func (c *clock) checkWindows(now time.Duration) {
	if end := c.wall.end.Load(); end != nil && end.at < math.MaxInt64 && c.wallAt(now) > end.at {
		end.passed("the wall time is 1970 and %v, which is longer than %s: give it a period of 2.2 s or more", c.wallAt(now))
	}
}

// now is the time of a request that is made now.
func (c *clock) now() time.Duration {
	if c.machine {
		return c.readMachine()
	}
	return time.Duration(c.latest.Load())
}

func (c *clock) readMachine() time.Duration { return c.follow(time.Since(c.start)) }

// elapsed is the time on a clock that no limiter may have yet, which has no end
// then. It moves nothing.
func (c *clock) elapsed() time.Duration {
	if c.machine {
		return c.late(time.Since(c.start))
	}
	return time.Duration(c.latest.Load())
}

// follow has the line follow a reading of the machine's clock, made for a
// request, and returns the time at which to judge it.
func (c *clock) follow(now time.Duration) time.Duration {
	if uint64(now)-uint64(c.latest.Load()) <= uint64(clockGrain) {
		return now
	}
	return c.followFar(now)
}

// followFar is follow for a reading that is overtaken, or first in its grain.
func (c *clock) followFar(now time.Duration) time.Duration {
	if now < 0 {
		return 0 // read before the limiter was made
	}
	if end := c.end.Load(); now > end.at {
		end.passed("this limiter was made %v ago, which is longer than %s: make a new one", now)
	}
	c.checkWindows(now)
	c.advance(now)
	return now
}

// advance moves the line to now, unless it is there already.
func (c *clock) advance(now time.Duration) {
	for l := c.latest.Load(); int64(now) > l; l = c.latest.Load() {
		if c.latest.CompareAndSwap(l, int64(now)) {
			break // else another reading was faster, which may be far older
		}
	}
}

func (e *clockEnd) passed(format string, now time.Duration) {
	panic(fmt.Sprintf("BUG: fastlimit: "+format, now, e.rule))
}

// reading is one reading of the machine's clock, for work that does not belong
// to one request.
type reading struct {
	at  time.Time
	now time.Duration // the same on the time line, or the latest time if that is later
}

func (c *clock) reading() reading {
	at := time.Now()
	return reading{at, c.late(at.Sub(c.start))}
}

// late is the time by which to judge a request that was read at now and does
// not fit then: the latest time.
func (c *clock) late(now time.Duration) time.Duration {
	return max(now, time.Duration(c.latest.Load()))
}
