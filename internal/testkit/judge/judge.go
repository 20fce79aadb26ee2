// Package judge keeps the exact level of one client in whole numbers, by the definition of each
// algorithm, and judges the promises by it. It shares no code with the limiter.
package judge

import (
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// Client is the level of what was admitted to one client. It is not safe for concurrent use. Copies
// share the times of a log.
type Client struct {
	N, Per int64 // the rate: dt ns leak dt·N. Of a window N is 0, and Per is 1 or a sliding window's steps.
	Level  int64 // in units · Per
	Last   int64 // ns: the latest time, of which Level is

	Window            int64   // ns; 0 of a bucket
	Previous, Current int64   // units in the two periods of a sliding window
	Times             []int64 // µs of the units that count in a log
	Logged            bool

	Scale int64 // 1000 if units are thousandths, else 0
}

// Of returns an empty client of a rule.
func Of(c limit.RuleConfig) *Client {
	switch c.Algorithm {
	case limit.FixedWindow:
		return &Client{Per: 1, Window: int64(c.Rate.Per)}
	case limit.SlidingWindow:
		return &Client{Per: 62_500, Window: int64(c.Rate.Per)}
	case limit.SlidingLog:
		return &Client{Per: 1, Window: int64(c.Rate.Per), Logged: true}
	}
	o := Leaky(c.Rate)
	if c.Thousandths {
		o.N, o.Scale = 1000*o.N, 1000
	}
	return o
}

// Leaky returns an empty client of a leaky bucket.
func Leaky(r limit.Rate) *Client { return &Client{N: int64(r.N), Per: int64(r.Per)} }

// At leaks until now, if that is later than the time before, and returns the level.
func (o *Client) At(now time.Duration) int64 {
	was := o.Last
	if int64(now) <= was {
		return o.Level
	}
	o.Last = int64(now)
	switch {
	case o.Logged:
		i := 0
		for i < len(o.Times) && o.Times[i]+o.Window/1000 <= o.Last/1000 {
			i++
		}
		o.Times = o.Times[i:]
		o.Level = int64(len(o.Times))
	case o.Window > 0 && o.Per > 1:
		switch o.Last/o.Window - was/o.Window {
		case 0:
		case 1:
			o.Previous, o.Current = o.Current, 0
		default:
			o.Previous, o.Current = 0, 0
		}
		o.Level = o.Current*o.Per + o.Previous*(o.Per-o.Last%o.Window/(o.Window/o.Per))
	case o.Window > 0:
		if was/o.Window != o.Last/o.Window {
			o.Level = 0
		}
	default:
		o.Level = Leak(o.Level, o.Last-was, o.N)
	}
	return o.Level
}

// Leak returns a level after dt ns that each leak n. It divides lest dt·n overflow.
func Leak(level, dt, n int64) int64 {
	if dt > level/n {
		return 0
	}
	return level - dt*n
}

// Units converts units to the scale of Level.
func (o *Client) Units(u float64) int64 { return int64(u * float64(o.Per*max(1, o.Scale))) }

// InUnits converts a level to units, or to thousandths.
func (o *Client) InUnits(level int64) float64 { return float64(level) / float64(o.Per) }

// Justified reports whether an exact bucket of burst b would deny n units. The level is that of the
// admitted stream, so a denial that passes is one that the client's own admitted requests explain: P1.
func (o *Client) Justified(n, b uint64) bool {
	return o.Level+int64(n)*o.Per > int64(b)*max(1, o.Scale)*o.Per
}

// Admit charges n units and returns the level.
func (o *Client) Admit(n uint64) int64 {
	o.Level += int64(n) * o.Per
	o.Current += int64(n)
	if o.Logged {
		for range n {
			o.Times = append(o.Times, o.Last/1000)
		}
	}
	return o.Level
}

// Until is the time from Last until n units fit a leaky bucket of burst b.
func (o *Client) Until(n, b uint64) time.Duration {
	over := max(0, o.Level+(int64(n)-int64(b))*o.Per)
	return time.Duration((over + o.N - 1) / o.N)
}
