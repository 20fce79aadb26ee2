package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
)

// oracle knows what a client may have been charged with. Times are those of the
// server's clock, since 1970.
type oracle interface {
	// charge is told of units that may have been charged, and between which times.
	charge(from, to time.Duration, units uint64)
	// refund is told of units that were charged and given back, and between which times.
	refund(from, to time.Duration, units uint64)
	// fits returns the time, now or later, from which on so many units fit, whatever was
	// charged, and whenever that was.
	fits(units uint64, now time.Duration) time.Duration
}

// newOracle is the oracle for a rule of nodes that wait for the store for as long as timeout.
func newOracle(c fastlimit.RuleConfig, timeout, begin time.Duration) oracle {
	// How far a node's windows may be ahead of the server's clock: as long as an operation takes
	// to get there, and the 1 ms for each second without an answer that clocks may drift apart.
	lead := timeout + 20*time.Millisecond
	switch c.Algorithm {
	case fastlimit.FixedWindow:
		return &windowUnits{c.Rate, lead, map[time.Duration]uint64{}}
	case fastlimit.SlidingWindow:
		return &slidingUnits{rate: c.Rate, lead: lead}
	case fastlimit.SlidingLog:
		return &loggedUnits{rate: c.Rate}
	}
	return &leakyUnits{rate: c.Rate, burst: c.Burst, timeout: timeout, begin: begin}
}

// leakyUnits is a bucket to which each unit is charged when it was asked for: nodes and
// stores have room for as much as leaks until they charge it.
type leakyUnits struct {
	rate           fastlimit.Rate
	burst          uint64
	timeout, begin time.Duration
	until          time.Duration // when it has leaked; see scaled
}

// scaled is the time since begin in 1/N ns, in which a unit leaks in a whole number.
func (o *leakyUnits) scaled(at time.Duration) time.Duration {
	return (at - o.begin) * time.Duration(o.rate.N)
}

func (o *leakyUnits) charge(from, to time.Duration, units uint64) {
	asked := max(from, to-o.timeout) // later where this process stood still
	o.until = max(o.until, o.scaled(asked)) + time.Duration(units)*o.rate.Per
}

func (o *leakyUnits) refund(_, _ time.Duration, units uint64) {
	o.until -= time.Duration(units) * o.rate.Per
}

func (o *leakyUnits) fits(units uint64, now time.Duration) time.Duration {
	n := time.Duration(o.rate.N)
	over := o.until + (time.Duration(units)-time.Duration(o.burst))*o.rate.Per - o.scaled(now)
	return now + (max(over, 0)+n-1)/n
}

// windowUnits is how many units each window may have counted. Those that one of two may have
// counted are in both.
type windowUnits struct {
	rate  fastlimit.Rate
	lead  time.Duration
	units map[time.Duration]uint64
}

func (o *windowUnits) charge(from, to time.Duration, units uint64) {
	for window := from / o.rate.Per; window <= (to+o.lead)/o.rate.Per; window++ {
		o.units[window] += units
	}
}

// refund counts where the store and the node were in one window all the time.
func (o *windowUnits) refund(from, to time.Duration, units uint64) {
	if window := from / o.rate.Per; window == (to+o.lead)/o.rate.Per {
		o.units[window] -= units
	}
}

// fits wants room in all windows from then on: a request may be judged in a later one.
func (o *windowUnits) fits(units uint64, now time.Duration) time.Duration {
	first := now / o.rate.Per
	for window, have := range o.units {
		switch {
		case window < now/o.rate.Per:
			delete(o.units, window)
		case have+units > o.rate.N:
			first = max(first, window+1)
		}
	}
	return max(now, first*o.rate.Per)
}

// charged is units that were charged between two times.
type charged struct {
	from, to time.Duration
	units    uint64
}

// refunded is without the units that were charged since from: the last that were, as an operation
// that comes twice may be carried out once more.
func refunded(all []charged, from time.Duration, units uint64) []charged {
	i := len(all) - 1
	for all[i].from != from || all[i].units != units {
		i--
	}
	return slices.Delete(all, i, i+1)
}

// slidingUnits counts each unit in the latest window that may have counted it, where it
// weighs the most at any time.
type slidingUnits struct {
	rate    fastlimit.Rate
	lead    time.Duration
	charges []charged
}

func (o *slidingUnits) charge(from, to time.Duration, units uint64) {
	o.charges = append(o.charges, charged{from, to + o.lead, units})
}

func (o *slidingUnits) refund(from, to time.Duration, units uint64) {
	if from/o.rate.Per == (to+o.lead)/o.rate.Per {
		o.charges = refunded(o.charges, from, units)
	}
}

func (o *slidingUnits) fits(units uint64, now time.Duration) time.Duration {
	per, step := o.rate.Per, o.rate.Per/bucket.SlidingSteps
	o.charges = slices.DeleteFunc(o.charges, func(c charged) bool { return c.to/per+1 < now/per })
	for window := now / per; ; window++ {
		previous, current := uint64(0), uint64(0)
		for _, c := range o.charges {
			switch last := c.to / per; {
			case last >= window:
				current += c.units
			case last+1 == window:
				previous += c.units
			}
		}
		if current+units > o.rate.N {
			continue
		}
		steps, room := uint64(0), o.rate.N-units-current
		if previous > room {
			steps = bucket.SlidingSteps - room*bucket.SlidingSteps/previous
		}
		if at := max(now, window*per+time.Duration(steps)*step); at < (window+1)*per {
			return at
		}
	}
}

// loggedUnits counts each unit for a period from when it was charged at the latest.
type loggedUnits struct {
	rate    fastlimit.Rate
	charges []charged
}

func (o *loggedUnits) charge(from, to time.Duration, units uint64) {
	o.charges = append(o.charges, charged{from, to, units})
}

// refund drops what was charged then: the log drops what it has of a later time, if there is any.
func (o *loggedUnits) refund(from, _ time.Duration, units uint64) {
	o.charges = refunded(o.charges, from, units)
}

func (o *loggedUnits) fits(units uint64, now time.Duration) time.Duration {
	o.charges = slices.DeleteFunc(o.charges, func(c charged) bool { return c.to+o.rate.Per <= now })
	slices.SortFunc(o.charges, func(a, b charged) int { return cmp.Compare(b.to, a.to) }) // the latest first
	for _, c := range o.charges {
		if units += c.units; units > o.rate.N {
			return c.to + o.rate.Per
		}
	}
	return now
}
