package selfaudit

import (
	"math"
	"sync/atomic"
)

// Rule is the limit by which admissions and denials are judged, in ticks, and where results are counted. It
// is immutable.
type Rule struct {
	Threshold uint64 // the level from which a client is suspected; 0: always
	Most      uint64 // what the exact bucket holds
	Bound     uint64 // P2: the most that a client is admitted at once
	Unit      uint64 // one unit
	Counts    *Counts
}

// Counts are what audits of a rule, and of its successors, have found. They are safe for concurrent use.
type Counts struct {
	requests, falseDenials, falseSuspects, excess atomic.Uint64
	estimated, level                              atomic.Uint64 // in thousandths of units
	peak                                          atomic.Uint64 // bits of a float64
}

// Stats are a snapshot of [Counts]. Package fastlimit describes the fields.
type Stats struct {
	Clients                                       int // filled in by the table's owner
	Requests, FalseDenials, FalseSuspects, Excess uint64
	Estimated, Level, Peak                        float64
}

// Stats returns a snapshot.
func (c *Counts) Stats() Stats {
	const parts = 1000
	return Stats{
		Requests: c.requests.Load(), FalseDenials: c.falseDenials.Load(), FalseSuspects: c.falseSuspects.Load(), Excess: c.excess.Load(),
		Estimated: float64(c.estimated.Load()) / parts, Level: float64(c.level.Load()) / parts,
		Peak: math.Float64frombits(c.peak.Load()),
	}
}

// compare adds an estimate of the sketch, and the level that it estimates.
func (r *Rule) compare(estimate, level uint64) {
	const parts = 1000
	r.Counts.estimated.Add(uint64(parts * float64(estimate) / float64(r.Unit)))
	r.Counts.level.Add(uint64(parts * float64(level) / float64(r.Unit)))
}

// reached records a level.
func (r *Rule) reached(level uint64) {
	if level > r.Bound {
		r.Counts.excess.Add(1)
	}
	share := float64(level) / float64(r.Bound)
	for {
		peak := r.Counts.peak.Load()
		if share <= math.Float64frombits(peak) || r.Counts.peak.CompareAndSwap(peak, math.Float64bits(share)) {
			return
		}
	}
}
