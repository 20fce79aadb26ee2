package fastlimit

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// counterStripes spreads the counters of a rule so that cores do not fight
// over them.
const counterStripes = 64

// stripe is padded to two cache lines: the adjacent-line prefetcher would
// make neighbours share.
type counterStripe struct {
	n [stageCount][2]atomic.Uint64 // [stage][allowed]
	_ [128 - 16*stageCount]byte
}

var _ [0]struct{} = [unsafe.Sizeof(counterStripe{}) - 128]struct{}{}

// counters counts the decisions of one rule.
type counters struct {
	stripes [counterStripes]counterStripe
}

func newCounters() *counters { return new(counters) }

// lane picks the stripe of a caller.
type lane uint64

// ownLane picks it by the address of the stack. Goroutines have stacks of
// their own, so each keeps to one stripe and rarely meets another: 5 ns for an
// uncontended add against 20 and more for a shared one (BenchmarkCounters).
func ownLane() lane {
	var here byte
	return laneOf(uintptr(unsafe.Pointer(&here)) >> 10)
}

// lentLane picks it by the address of what the caller lends. Servers take that
// from a pool which gives each core its own, so the stripe is in that core's
// cache whatever the goroutine.
func lentLane(charges []Charge) lane {
	return laneOf(uintptr(unsafe.Pointer(unsafe.SliceData(charges))) >> 7)
}

func laneOf(a uintptr) lane { return lane(uint64(a) * 0x9e3779b97f4a7c15 >> 58) }

// add returns the stripe's count.
func (c *counters) add(at lane, stage Stage, allowed bool) uint64 {
	a := 0
	if allowed {
		a = 1
	}
	return c.stripes[at%counterStripes].n[stage][a].Add(1)
}

// RuleStats is a snapshot of the counters of one rule since it was made.
type RuleStats struct {
	Allowed, Denied [stageCount]uint64 // by Stage
	// Evictions counts buckets given up before they had drained (P3).
	Evictions uint64
	// SketchLoad is the share of busy cells, 0 without a sketch. Above 0.5
	// noise makes many clients suspects.
	SketchLoad float64
	// TableLive is the share of the table's buckets that have not drained.
	TableLive float64
}

// Stats returns a snapshot. Counters of concurrent decisions may be a few
// apart.
func (r *Rule) Stats() RuleStats {
	r.checkMade()
	const sample = 1 << 10
	var s RuleStats
	for i := range r.counts.stripes {
		for stage := range stageCount {
			n := &r.counts.stripes[i].n[stage]
			s.Denied[stage] += n[0].Load()
			s.Allowed[stage] += n[1].Load()
		}
	}
	now := r.shape.Ticks(r.limiter.now())
	s.Evictions = r.table.Evictions()
	s.TableLive = r.table.Live(now, sample)
	if r.sketch != nil {
		s.SketchLoad = r.sketch.Busy(now, sample)
	}
	return s
}

// FirstSeenClients estimates the distinct clients of all rules in the current
// window of the filter, 0 without a filter.
func (l *Limiter) FirstSeenClients() uint32 {
	if l.filter == nil {
		return 0
	}
	return l.filter.Clients()
}

// now is the limiter's own clock, or the latest time where callers bring times
// that are ahead of it.
func (l *Limiter) now() time.Duration { return l.clock.late(l.clock.read()) }
