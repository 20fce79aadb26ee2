// Package marks measures how much a counter grew lately. Whoever keeps counters
// marks all of them every [Every]; what is compared with the mark before the
// last one is the growth of the last 5 to 10 seconds. Nothing here is safe for
// concurrent use.
package marks

import (
	"slices"
	"time"
)

const (
	// Every is the time between two marks. Rates are over one to two times that.
	Every = 5 * time.Second
	// Long is a number of marks such that the time since the oldest of them is
	// longer than the window of any other node, which sets its marks at times of
	// its own.
	Long = 4
)

// Counter holds the values of one counter at the last two marks. The zero value
// is that of a counter that began at 0 after the last mark.
type Counter struct{ before, last uint64 }

// Roll sets a mark at total.
func (c *Counter) Roll(total uint64) { c.before, c.last = c.last, total }

// Skip takes units that were counted outside of the window, and became known
// within it, out of the growth.
func (c *Counter) Skip(units uint64) {
	c.before += units
	c.last += units
}

// Since is the growth since the mark before the last one.
func (c *Counter) Since(total uint64) uint64 { return total - min(total, c.before) }

// Peaks are the maxima of a value between marks, the time since the last mark
// first. The zero value is that of a value that was 0.
type Peaks [Long + 1]uint64

// Note takes note of a value of now.
func (p *Peaks) Note(v uint64) { p[0] = max(p[0], v) }

// Roll sets a mark.
func (p *Peaks) Roll() {
	copy(p[1:], p[:])
	p[0] = 0
}

// Lately is the maximum since the mark before the last one.
func (p *Peaks) Lately() uint64 { return max(p[0], p[1]) }

// Worst is the maximum since the oldest mark.
func (p *Peaks) Worst() uint64 { return slices.Max(p[:]) }
