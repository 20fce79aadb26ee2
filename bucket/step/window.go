package step

import "github.com/fastlimit/fastlimit/bucket"

// fixedWindow is a [bucket.FixedWindow] at the time of a request. A window is the number of
// the period since 1970 that now is in. State.Level is the count, State.Last the window,
// State.Unit the period and State.Quiet the window in which floors are ignored.
type fixedWindow struct {
	request *Request
	now     uint64 // µs
	window  uint64 // the window of now
	count   uint64 // the count in it
}

// fixedAt returns the count in the window of now. A state of a later window is from before
// the clock stepped back. No time has passed since, so it is moved to this window, and must
// be written as such, or it would count until the clock has caught up.
func fixedAt(s *State, now uint64, r *Request) bucketAt {
	c := &fixedWindow{request: r, now: now, window: now / r.Unit}
	b := bucketAt{counter: c, mark: c.window}
	if s.Unit != r.Unit || s.Last < c.window {
		return b // another period, or a window that is over
	}
	c.count, b.moved = s.Level, s.Last > c.window
	if s.Quiet == s.Last && s.Quiet > 0 {
		b.quiet = c.window
	}
	return b
}

func (c *fixedWindow) level() uint64 { return c.count }

func (c *fixedWindow) reply() uint64 { return c.count }

func (c *fixedWindow) refund(units uint64) bool {
	if c.count == 0 || c.request.Window > 0 && c.request.Window != c.window {
		return false // it was charged in a window that is over
	}
	c.count -= min(c.count, units)
	return true
}

func (c *fixedWindow) raise() bool {
	if c.request.Window == 0 || c.request.Window != c.window || c.request.Floor <= c.count {
		return false
	}
	c.count = c.request.Floor
	return true
}

func (c *fixedWindow) charge(granted uint64) bool {
	charge := granted * c.request.Cost
	if c.request.CountDenied && granted < c.request.Count {
		charge = c.request.Limit - min(c.count, c.request.Limit) // since one of them does not fit
	}
	c.count += charge
	return charge > 0
}

func (c *fixedWindow) rest(quiet uint64) (s State, lasts uint64) {
	s = State{Algorithm: bucket.FixedWindow, Level: c.count, Last: c.window, Unit: c.request.Unit, Quiet: quiet}
	return s, c.request.Unit - c.now%c.request.Unit
}
