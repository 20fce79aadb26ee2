package step

import (
	"math"

	"github.com/fastlimit/fastlimit/bucket"
)

// leakyBucket is a [bucket.LeakyBucket] at the time of a request.
type leakyBucket struct {
	request *Request
	now     uint64 // µs
	ticks   uint64 // that are left
}

// leakyAt returns what is left of s. If the clock has stepped back since s was written, no
// time has passed, and s must be written with the new time, or the bucket would not leak
// until the clock has caught up.
func leakyAt(c *leakyBucket, s *State, now uint64, r *Request) bucketAt {
	*c = leakyBucket{r, now, s.Level}
	b := bucketAt{counter: c, mark: min(now+2*(r.Limit/r.PerMicro)+2, maxSafe)}
	b.quiet = quietUntil(s.Quiet, now, b.mark)
	if c.ticks == 0 {
		return b
	}
	if s.Unit != r.Unit {
		c.ticks = rescale(c.ticks, s.Unit, r.Unit)
	}
	if now < s.Last {
		b.moved = true
	} else {
		c.ticks = aged(c.ticks, s.Last, now, r.PerMicro)
	}
	return b
}

func (c *leakyBucket) level() uint64 { return c.ticks }

func (c *leakyBucket) reply() uint64 { return c.ticks }

func (c *leakyBucket) refund(ticks uint64) bool {
	had := c.ticks > 0
	c.ticks -= min(c.ticks, ticks)
	return had
}

func (c *leakyBucket) raise() bool {
	if c.request.Date == 0 {
		return false
	}
	floor := aged(c.request.Floor, c.request.Date, c.now, c.request.PerMicro)
	higher := floor > c.ticks
	c.ticks = max(c.ticks, floor)
	return higher
}

func (c *leakyBucket) charge(granted uint64) bool {
	charge := granted * c.request.Cost
	c.ticks += charge
	return charge > 0
}

func (c *leakyBucket) rest(quiet uint64) (s State, lasts uint64) {
	quiet, lasts = quietRest(quiet, c.now, c.ticks/c.request.PerMicro)
	return State{Level: c.ticks, Last: c.now, Unit: c.request.Unit, Quiet: quiet}, lasts
}

// quietUntil returns the current [State.Quiet] in µs, 0 if that is over. If the clock has
// stepped back since it was set, it would be beyond mark, which a refund would set now.
func quietUntil(quiet, now, mark uint64) uint64 {
	if quiet = min(quiet, mark); quiet <= now {
		return 0
	}
	return quiet
}

// quietRest returns quiet as it is stored, and for how long, in µs, a state that counts for
// lasts must be stored.
func quietRest(quiet, now, lasts uint64) (uint64, uint64) {
	if quiet <= now { // also if maxSafe has clamped it
		return 0, lasts
	}
	return quiet, max(lasts, quiet-now)
}

// aged returns what is left at now of a level at date, 0 if date is in the future.
func aged(level, date, now, perMicro uint64) uint64 {
	if now < date {
		return 0
	}
	// The clamp keeps the product near level, so that float64 represents it exactly.
	dt := min(now-date, level/perMicro+1)
	return level - min(level, dt*perMicro)
}

// rescale converts a level to another rate: the units stay, the ticks change. It rounds
// down, once per change of rate; nothing else rounds a level.
func rescale(level, from, to uint64) uint64 {
	units := float64(level) / float64(from)
	return uint64(min(math.Floor(float64(units*float64(to))), bucket.MaxPortable))
}
