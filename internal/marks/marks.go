// Package marks measures how much counters have grown recently. Their owner marks
// all of them every [Every]; the difference to the mark before the last one is the
// growth over the last 5 to 10 seconds. Nothing here is safe for concurrent use.
package marks

import (
	"slices"
	"time"
)

const (
	// Every is the time between two marks. Rates cover one to two times that.
	Every = 5 * time.Second
	// Long is a number of marks whose time covers the window of any other node.
	// That is up to 2·Every long, and its marks are set at other times.
	Long = 4
)

// Counter holds the values of one counter at the last two marks. The zero value
// is that of a counter that began at 0 after the last mark.
type Counter struct{ before, last uint64 }

// Roll sets a mark at total.
func (c *Counter) Roll(total uint64) { c.before, c.last = c.last, total }

// Skip excludes units from the growth that became known within the window but were
// counted outside of it.
func (c *Counter) Skip(units uint64) {
	c.before += units
	c.last += units
}

// Since is the growth since the mark before the last one.
func (c *Counter) Since(total uint64) uint64 { return total - min(total, c.before) }

// Peaks are the maxima of a value between marks, newest first; the first is since
// the last mark. The zero value is that of a value that has always been 0.
type Peaks [Long + 1]uint64

// Note records the present value.
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
