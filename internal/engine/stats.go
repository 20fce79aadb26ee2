package engine

import (
	"sync/atomic"
	"unsafe"

	"github.com/fastlimit/fastlimit/internal/selfaudit"
	"github.com/fastlimit/fastlimit/limit"
)

// counterStripes spreads a rule's counters so that cores do not contend for them.
const counterStripes = 64

// counterStripe is padded to two cache lines: the adjacent-line prefetcher
// would make neighbours share.
type counterStripe struct {
	n [stageCount][2]atomic.Uint64 // [stage][allowed]
	_ [128 - 16*stageCount]byte
}

var _ [0]struct{} = [unsafe.Sizeof(counterStripe{}) - 128]struct{}{}

// counters counts the decisions of one rule.
type counters struct {
	stripes [counterStripes]counterStripe

	badCosts, badRates atomic.Uint64

	audit selfaudit.Counts
}

// stripe selects the counters that a caller adds to.
type stripe uint64

// stackStripe picks by the address of the stack. Goroutines have separate stacks, so each keeps to one stripe
// and rarely shares it; a counter shared by all costs more the more cores there are (BenchmarkCounters).
func stackStripe() stripe {
	var here byte
	return stripeOf(uintptr(unsafe.Pointer(&here)) >> 10)
}

// stripeFor picks by the address of the caller's slice. Servers take it from a pool with one per core, so the
// stripe is in that core's cache whatever the goroutine.
func stripeFor(charges []Charge) stripe {
	return stripeOf(uintptr(unsafe.Pointer(unsafe.SliceData(charges))) >> 7)
}

func stripeOf(a uintptr) stripe { return stripe(uint64(a) * 0x9e3779b97f4a7c15 >> 58) }

// record counts a decision. It returns a serial number that is unique among the denials of a stage.
func (c *counters) record(at stripe, stage limit.Stage, allowed bool) uint64 {
	a := 0
	if allowed {
		a = 1
	}
	return c.stripes[at%counterStripes].n[stage][a].Add(1) | uint64(at)<<58
}

// Stats is fastlimit.Rule.Stats.
func (r *Rule) Stats() limit.RuleStats {
	r.checkMade()
	const sample = 1 << 10
	var s limit.RuleStats
	r.counts.addTo(&s)
	at := r.time()
	if r.bans != nil {
		b := r.bans.Stats(at)
		s.Bans, s.BansRunning, s.BansRefused, s.DenialsUncounted = b.Begun, b.Running, b.Full, b.Passed
	}
	s.Audit.Clients = r.auditStats(at)
	if w := r.queues; w != nil {
		s.Waits = limit.WaitStats{Waiting: w.Waiting.Load(), Admitted: w.Admitted.Load(), Left: w.Left.Load(), Denied: w.Denied.Load(), Refused: w.Refused.Load()}
	}
	s.Evictions, s.Forgiven = r.buckets.Table.Evictions(), r.buckets.Table.Forgiven()
	s.TableLive = r.buckets.Table.Live(r.buckets.Ticks(at), sample)
	if r.sketch != nil {
		s.SketchLoad = r.sketch.Busy(r.buckets.SketchTicks(at)+r.noise(), sample)
	}
	return s
}

// noise is the level from which a cell counts as busy. A bucket's cells leak it; cells of a period keep it
// until the period ends.
func (r *Rule) noise() uint64 {
	if r.buckets.Plain {
		return 0
	}
	return r.threshold / 2
}

// Counters are what a rule counts, without its state: holding them does not hold the memory of its buckets.
// Decisions of requests that still use the rule are included. The zero value has counted nothing. It is safe
// for concurrent use.
type Counters struct {
	counts *counters
	rest   limit.RuleStats // what the state counts, as of when they were taken
}

// Of reports whether r counts in them: their own rule, or its successor.
func (c Counters) Of(r *Rule) bool { return c.counts == r.counts }

// Stats returns the counts; levels are 0. Waiting requests are as of when the counters were taken.
func (c Counters) Stats() limit.RuleStats {
	s := c.rest
	if c.counts != nil {
		c.counts.addTo(&s)
	}
	return s
}

// addTo adds the decisions.
func (c *counters) addTo(s *limit.RuleStats) {
	for i := range c.stripes {
		for stage := range stageCount {
			n := &c.stripes[i].n[stage]
			s.Denied[stage] += n[0].Load()
			s.Allowed[stage] += n[1].Load()
		}
	}
	s.BadCosts += c.badCosts.Load()
	s.BadRates += c.badRates.Load()
	s.Audit = limit.AuditStats(c.audit.Stats())
}

// FirstSeenClients is fastlimit.Limiter.FirstSeenClients.
func (l *Limiter) FirstSeenClients() uint32 {
	if l.filter == nil {
		return 0
	}
	return l.filter.Clients()
}
