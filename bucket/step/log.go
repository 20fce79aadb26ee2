package step

import (
	"encoding/binary"
	"slices"

	"github.com/fastlimit/fastlimit/bucket"
)

// Times are the times of the units in a sliding log, in µs, the oldest first. It is
// immutable, so that a [State] is compared and copied like a number.
type Times string

const timeBytes = 8

// NewTimes returns times, which must not descend.
func NewTimes(times ...uint64) Times {
	b := make([]byte, 0, timeBytes*len(times))
	for _, t := range times {
		b = binary.LittleEndian.AppendUint64(b, t)
	}
	return Times(b)
}

// Len returns their number.
func (t Times) Len() int { return len(t) / timeBytes }

// At returns the time at index i.
func (t Times) At(i int) uint64 {
	return binary.LittleEndian.Uint64([]byte(t[timeBytes*i : timeBytes*(i+1)]))
}

// All returns a copy.
func (t Times) All() []uint64 {
	all := make([]uint64, t.Len())
	for i := range all {
		all[i] = t.At(i)
	}
	return all
}

// slidingLog is a [bucket.SlidingLog] at the time of a request. State.Log is its times,
// State.Quiet is in µs as for a leaky bucket. The period is not in the state, as the times
// do not depend on it.
type slidingLog struct {
	request *Request
	now     uint64   // µs
	times   []uint64 // those that count, at most as many as the limit, none after now
}

// logAt returns what counts of s. If the clock has stepped back since the latest of its
// times, no time has passed: all of them move back by as much.
func logAt(s *State, now uint64, r *Request) bucketAt {
	c := &slidingLog{request: r, now: now, times: s.Log.All()}
	b := bucketAt{counter: c, mark: min(now+2*r.Unit, maxSafe)}
	b.quiet = quietUntil(s.Quiet, now, b.mark)
	if n := len(c.times); n > 0 && c.times[n-1] > now {
		step := c.times[n-1] - now
		for i, t := range c.times {
			c.times[i] = t - min(t, step)
		}
		b.moved = true
	}
	c.trim()
	c.times = slices.DeleteFunc(c.times, func(t uint64) bool { return now-t >= r.Unit })
	return b
}

// trim keeps the latest times.
func (c *slidingLog) trim() {
	c.times = c.times[len(c.times)-min(len(c.times), int(c.request.Limit)):]
}

func (c *slidingLog) level() uint64 { return uint64(len(c.times)) }

// reply returns the level, or for a full log the limit plus the µs until one unit fits.
func (c *slidingLog) reply() uint64 {
	if c.level() < c.request.Limit {
		return c.level()
	}
	return c.request.Limit + c.request.Unit - (c.now - c.times[0])
}

// refund drops the latest times.
func (c *slidingLog) refund(units uint64) bool {
	had := len(c.times) > 0
	c.times = c.times[:c.level()-min(c.level(), units)]
	return had
}

// raise joins the log by maximum with the units that were taken in the half period before
// Date. All of them are dated at its start, when the first of them is over. Older units of
// the log may be the same ones, so they move there before any is added.
func (c *slidingLog) raise() bool {
	r := c.request
	if r.Date == 0 || c.now < r.Date {
		return false
	}
	from := r.Date - min(r.Date, r.Unit/2)
	if c.now-from >= r.Unit {
		return false
	}
	i, _ := slices.BinarySearch(c.times, from)
	have := uint64(len(c.times) - i)
	if have >= r.Floor {
		return false
	}
	missing := r.Floor - have
	c.times = slices.Replace(c.times, i-min(i, int(missing)), i, repeat(from, missing)...) // at most a limit
	return true
}

func (c *slidingLog) charge(granted uint64) bool {
	units := granted * c.request.Cost
	c.times = append(c.times, repeat(c.now, units)...)
	return units > 0
}

func (c *slidingLog) rest(quiet uint64) (s State, lasts uint64) {
	if n := len(c.times); n > 0 {
		lasts = c.request.Unit - (c.now - c.times[n-1])
	}
	quiet, lasts = quietRest(quiet, c.now, lasts)
	return State{Algorithm: bucket.SlidingLog, Log: NewTimes(c.times...), Quiet: quiet}, lasts
}

func repeat(t, n uint64) []uint64 { return slices.Repeat([]uint64{t}, int(n)) } // at most a limit
