package engine

import (
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// oracle is the exact leaky bucket of one client in whole numbers: its level
// in units times the period in ns, so that dt ns leak dt·N. It counts what
// the limiter admitted and judges both promises by it.
type oracle struct {
	n, per int64 // rate
	level  int64 // units · ns
	last   int64 // ns

	window int64 // ns; of a rule that counts in periods, and then n is 0 and per 1, or
	// of a sliding window its steps
	previous, current int64   // units, of a sliding window
	times             []int64 // µs of the units that count, of a log
	logged            bool

	scale int64 // of a rule in thousandths, whose units are those: 1000; else 0
}

// oracleOf is an oracle for a rule.
func oracleOf(c limit.RuleConfig) *oracle {
	switch c.Algorithm {
	case limit.FixedWindow:
		return &oracle{per: 1, window: int64(c.Rate.Per)}
	case limit.SlidingWindow:
		return &oracle{per: 62_500, window: int64(c.Rate.Per)}
	case limit.SlidingLog:
		return &oracle{per: 1, window: int64(c.Rate.Per), logged: true}
	}
	o := newOracle(c.Rate)
	if c.Thousandths {
		o.n, o.scale = 1000*o.n, 1000
	}
	return o
}

func newOracle(r limit.Rate) *oracle { return &oracle{n: int64(r.N), per: int64(r.Per)} }

// at leaks up to now.
func (o *oracle) at(now time.Duration) {
	dt, was := int64(now)-o.last, o.last
	o.last = int64(now)
	switch {
	case o.logged:
		i := 0
		for i < len(o.times) && o.times[i]+o.window/1000 <= o.last/1000 {
			i++
		}
		o.times = o.times[i:]
		o.level = int64(len(o.times))
	case o.window > 0 && o.per > 1:
		switch o.last/o.window - was/o.window {
		case 0:
		case 1:
			o.previous, o.current = o.current, 0
		default:
			o.previous, o.current = 0, 0
		}
		o.level = o.current*o.per + o.previous*(o.per-o.last%o.window/(o.window/o.per))
	case o.window > 0:
		if was/o.window != o.last/o.window {
			o.level = 0
		}
	case dt <= 0:
	case dt > o.level/o.n:
		o.level = 0
	default:
		o.level -= dt * o.n
	}
}

// units converts to the oracle's scale.
func (o *oracle) units(u float64) int64 { return int64(u * float64(o.per*max(1, o.scale))) }

// justified tells whether a denial of n units is one that an exact bucket of
// burst b would make. The level is that of the admitted stream, so a denial
// that passes is one the client's own admitted requests explain: P1.
func (o *oracle) justified(n, b uint64) bool {
	return o.level+int64(n)*o.per > int64(b)*max(1, o.scale)*o.per
}

// admit charges n units and returns the level.
func (o *oracle) admit(n uint64) int64 {
	o.level += int64(n) * o.per
	o.current += int64(n)
	if o.logged {
		for range n {
			o.times = append(o.times, o.last/1000)
		}
	}
	return o.level
}
