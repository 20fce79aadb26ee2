package sketch

import (
	"sync/atomic"
	"time"
)

// maxGrain keeps sums within 64 bits.
const maxGrain = 1 << 24

// Grain is g: when there are many events, one in g is recorded, and stands for g. It is a
// power of two that follows their number: 1, so that all are recorded, while there are few.
// It is safe for concurrent use. Call Init before the first use.
type Grain struct {
	mask        atomic.Uint64 // g - 1
	rate, burst uint64

	_     [104]byte     // separates writers from callers that only read the mask
	notes atomic.Uint64 // since the last Pace
	units atomic.Uint64 // that they stand for
}

// Init sets the number of events per second to record. burst notes double g until the next
// Pace: a flood of any size takes some 20 of these to be sampled enough.
func (g *Grain) Init(rate, burst uint64) { g.rate, g.burst = rate, burst }

// Mask returns g - 1: an event is recorded if a number drawn for it, and-ed with that, is
// 0.
func (g *Grain) Mask() uint64 { return g.mask.Load() }

// Note records an event that stands for n.
func (g *Grain) Note(n uint64) {
	g.units.Add(n)
	if g.notes.Add(1)%g.burst != 0 {
		return
	}
	if mask := g.mask.Load(); mask < maxGrain-1 {
		g.mask.CompareAndSwap(mask, mask<<1|1)
	}
}

// Pace chooses g by the events since the last call, which was passed ago. One goroutine
// calls it, up to 10 times a second.
func (g *Grain) Pace(passed time.Duration) {
	budget := min(max(uint64(passed.Seconds()*float64(g.rate)), 1), g.burst)
	g.notes.Store(0)
	units, mask := g.units.Swap(0), uint64(0)
	for units/(mask+1) > budget && mask < maxGrain-1 {
		mask = mask<<1 | 1
	}
	g.mask.Store(mask)
}
