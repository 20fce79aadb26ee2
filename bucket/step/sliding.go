package step

import "github.com/fastlimit/fastlimit/bucket"

// slidingWindow is a [bucket.SlidingWindow] at the time of a request: the counts of the
// window of now and of the previous one. State.Level and State.Previous are both as of
// State.Last, a window as for [bucket.FixedWindow]. Floors are ignored in the window
// State.Quiet and in the next one.
type slidingWindow struct {
	request           *Request
	now               uint64 // µs
	window            uint64 // the window of now
	previous, current uint64 // units
}

// slidingAt rotates s to the window of now. After a step back of the clock s is moved to
// this window, as for [fixedAt], with both of its counts.
func slidingAt(s *State, now uint64, r *Request) bucketAt {
	c := &slidingWindow{request: r, now: now, window: now / r.Unit}
	b := bucketAt{counter: c, mark: c.window}
	if s.Unit != r.Unit || s.Last+1 < c.window {
		return b // another period, or windows that are over
	}
	if s.Last+1 == c.window {
		c.previous = s.Level
	} else {
		c.previous, c.current, b.moved = s.Previous, s.Level, s.Last > c.window
	}
	if s.Quiet > s.Last {
		return b
	}
	if b.quiet = s.Quiet; b.moved { // as far back as it was
		b.quiet -= min(s.Quiet, s.Last-c.window)
	}
	if b.quiet+1 < c.window {
		b.quiet = 0
	}
	return b
}

func (c *slidingWindow) level() uint64 {
	return bucket.Weighted(c.previous, c.current, c.now%c.request.Unit/(c.request.Unit/bucket.SlidingSteps))
}

func (c *slidingWindow) reply() uint64 { return bucket.Pack(c.previous, c.current) }

// refund takes units off the window in which they were charged, and off the previous one if
// they may be from there.
func (c *slidingWindow) refund(units uint64) bool {
	was := c.reply()
	switch c.request.Window {
	case 0, c.window:
		off := min(c.current, units)
		c.current -= off
		c.previous -= min(c.previous, units-off)
	case c.window - 1:
		c.previous -= min(c.previous, units)
	}
	return c.reply() != was
}

func (c *slidingWindow) raise() bool {
	was := c.reply()
	previous, current := bucket.Unpack(c.request.Floor)
	switch c.request.Window {
	case 0:
	case c.window:
		c.previous, c.current = bucket.JoinCounts(c.previous, c.current, previous, current)
	case c.window - 1:
		c.previous, c.current = bucket.JoinCounts(c.previous, c.current, current, 0)
	}
	return c.reply() != was
}

func (c *slidingWindow) charge(granted uint64) bool {
	was := c.current
	c.current += granted * c.request.Cost
	if denied := c.request.Count - granted; c.request.CountDenied && c.current < c.request.Limit {
		room := c.request.Limit - c.current
		if c.request.Cost > 0 && denied > room/c.request.Cost {
			c.current = c.request.Limit
		} else {
			c.current += denied * c.request.Cost
		}
	}
	return c.current > was
}

// rest lasts for as long as a count matters, or that floors are ignored: until this window
// ends or the next one does.
func (c *slidingWindow) rest(quiet uint64) (s State, lasts uint64) {
	lasts = c.request.Unit - c.now%c.request.Unit
	if c.current > 0 || quiet == c.window {
		lasts += c.request.Unit
	}
	return State{Algorithm: bucket.SlidingWindow, Level: c.current, Previous: c.previous, Last: c.window, Unit: c.request.Unit, Quiet: quiet}, lasts
}
