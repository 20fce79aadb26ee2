package fastlimit

import (
	"fmt"
	"sync/atomic"
	"time"
)

// clock is the limiter's time line. It never steps back.
//
// A time that a caller brings counts as itself if it is the latest so far, and
// otherwise as the latest, by however much it is older: it moves nothing. A
// caller's clock that was set back thus stands still until it has caught up,
// and one reading far in the future makes all later ones count as that one.
//
// The limiter's own readings are monotonic and count as themselves, so that
// cores have nothing to write; the line follows them to within clockGrain. Such
// a reading is old only if its goroutine was overtaken between reading the
// clock and using it. Whoever would be denied for that is judged again by late.
// The package comment says what that means for P1.
type clock struct {
	start time.Time

	// end is the last time that every rule can count in ticks, since its first
	// can (bucket.Shape.LastTime); ender says which. Immutable.
	end   time.Duration
	ender string

	// latest is the latest time on the line, in ns. The own readings of all
	// cores write it once in clockGrain, times brought whenever they advance.
	latest atomic.Int64
}

const clockGrain = time.Millisecond

// init starts a clock that lasts for as long as all the rules can count.
func (c *clock) init(rules []RulePlan) {
	c.start = time.Now()
	for i := range rules {
		if rp := &rules[i]; c.ender == "" || rp.shape.LastTime() < c.end {
			c.end = rp.shape.LastTime()
			c.ender = fmt.Sprintf("rule %q can count at %v", rp.Config.Name, rp.Config.Rate)
		}
	}
}

func (c *clock) read() time.Duration { return time.Since(c.start) }

// follow has the line follow an own reading, made for a request, and returns
// the time at which to judge it.
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
	if now > c.end {
		c.ended("this limiter was made %v ago, which is longer than %s: make a new one", now)
	}
	for l := c.latest.Load(); int64(now) > l; l = c.latest.Load() {
		if c.latest.CompareAndSwap(l, int64(now)) {
			break // else another reading was faster, which may be far older
		}
	}
	return now
}

// isLatest reports whether a time brought is the latest so far, and moves the
// line there. It is the part of settle that most requests need, apart so that
// it can be inlined.
func (c *clock) isLatest(now time.Duration) bool {
	l := c.latest.Load()
	return int64(now) == l || int64(now) > l && now <= c.end && c.latest.CompareAndSwap(l, int64(now))
}

// settle returns the time that a time brought counts as, and moves the line.
func (c *clock) settle(now time.Duration) time.Duration {
	for !c.isLatest(now) {
		if late := c.ahead(now); late > now {
			return late
		}
	}
	return now
}

// ahead is settle for a time that moves nothing.
func (c *clock) ahead(now time.Duration) time.Duration {
	if now > c.end {
		c.ended("the time %v was brought, which is longer than %s: bring the time since a recent start, not since 1970", now)
	}
	return c.late(now)
}

func (c *clock) ended(format string, now time.Duration) {
	if c.ender == "" {
		panic("BUG: fastlimit: the Limiter was not made by New")
	}
	panic(fmt.Sprintf("BUG: fastlimit: "+format, now, c.ender))
}

// at is the time of an own reading t, or the latest time if that is later.
func (c *clock) at(t time.Time) time.Duration { return c.late(t.Sub(c.start)) }

// late is the time by which to judge a request that was read at now and does
// not fit then: the latest time.
func (c *clock) late(now time.Duration) time.Duration {
	return max(now, time.Duration(c.latest.Load()))
}
