package fastlimit

import (
	"sync/atomic"
	"unsafe"

	"github.com/fastlimit/fastlimit/internal/selfaudit"
)

// counterStripes spreads the counters of a rule so that cores do not fight
// over them.
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

// stripe picks the counters that a caller adds to.
type stripe uint64

// stackStripe picks by the address of the stack. Goroutines have stacks of
// their own, so each keeps to one stripe and rarely meets another; a counter
// that all share costs more the more cores there are (BenchmarkCounters).
func stackStripe() stripe {
	var here byte
	return stripeOf(uintptr(unsafe.Pointer(&here)) >> 10)
}

// stripeFor picks by the address of what the caller lends. Servers take that
// from a pool which gives each core its own, so the stripe is in that core's
// cache whatever the goroutine.
func stripeFor(charges []Charge) stripe {
	return stripeOf(uintptr(unsafe.Pointer(unsafe.SliceData(charges))) >> 7)
}

func stripeOf(a uintptr) stripe { return stripe(uint64(a) * 0x9e3779b97f4a7c15 >> 58) }

// record counts a decision. It returns a serial number: no two denials of a
// stage have the same.
func (c *counters) record(at stripe, stage Stage, allowed bool) uint64 {
	a := 0
	if allowed {
		a = 1
	}
	return c.stripes[at%counterStripes].n[stage][a].Add(1) | uint64(at)<<58
}

// RuleStats is a snapshot of the counters of one rule since it was made, or, if
// it goes on with the state of another ([Limiter.With]), since the first of them
// was.
type RuleStats struct {
	// Allowed and Denied count decisions by the stage that made them, for example
	// Denied[StageTable]. A shadow rule counts what it would have denied as denied.
	Allowed, Denied [stageCount]uint64
	// Evictions counts buckets given up before they had drained, because more
	// suspects were alive than the table holds (P3), and Forgiven the units in
	// them: what all clients together got beyond P2 is no more than that.
	Evictions, Forgiven uint64
	// Bans counts bans that have begun, and BansRunning is how many run now. A shadow rule
	// counts what it would have banned.
	Bans        uint64
	BansRunning int
	// BansRefused counts bans that did not begin, because the table of bans had no room.
	BansRefused uint64
	// DenialsUncounted counts denials that count towards no ban, because more clients are
	// denied than the table has room for: those of clients that were denied seldom.
	DenialsUncounted uint64
	// BadCosts and BadRates count requests for which somebody named a cost, or a rate, that
	// cannot be charged: package policy counts them.
	BadCosts, BadRates uint64
	// Waits counts the requests that were denied only for the moment, of the rule and its tiers.
	Waits WaitStats
	// Audit is what the limiter has found out about itself.
	Audit AuditStats
	// SketchLoad is the share of busy cells, 0 without a sketch; of a rule that
	// counts in windows, of those that are halfway to making a suspect. Above 0.5
	// noise makes many clients suspects.
	SketchLoad float64
	// TableLive is how full the table is: its buckets that have not drained, as
	// a share of [limit.RulePlan].Buckets. It may rise to 1.13.
	TableLive float64
}

// Stats returns a snapshot. Counters of concurrent decisions may be a few
// apart.
func (r *Rule) Stats() RuleStats {
	r.checkMade()
	const sample = 1 << 10
	var s RuleStats
	r.counts.addTo(&s)
	at := r.time()
	if r.bans != nil {
		b := r.bans.Stats(at)
		s.Bans, s.BansRunning, s.BansRefused, s.DenialsUncounted = b.Begun, b.Running, b.Full, b.Passed
	}
	s.Audit.Clients = r.auditStats(at)
	if w := r.lines; w != nil {
		s.Waits = WaitStats{w.Waiting.Load(), w.Admitted.Load(), w.Left.Load(), w.Denied.Load(), w.Refused.Load()}
	}
	s.Evictions, s.Forgiven = r.buckets.Table.Evictions(), r.buckets.Table.Forgiven()
	s.TableLive = r.buckets.Table.Live(r.buckets.Ticks(at), sample)
	if r.sketch != nil {
		s.SketchLoad = r.sketch.Busy(r.buckets.SketchTicks(at)+r.noise(), sample)
	}
	return s
}

// noise is the level from which on a cell is busy. In a bucket's it leaks; what cells
// count in a period stays until it ends.
func (r *Rule) noise() uint64 {
	if r.buckets.Plain {
		return 0
	}
	return r.threshold / 2
}

// ruleCounters are what a rule counts, without its state: whoever keeps them does not keep the
// memory of its buckets. Decisions of requests that still have the rule count in them. The
// zero value has counted nothing. It is safe for concurrent use.
type ruleCounters struct {
	counts *counters
	rest   RuleStats // what is counted beside the state, as of when they were taken
}

// Of reports whether r counts in them: it is the rule that they are of, or goes on with its
// state.
func (c ruleCounters) Of(r *Rule) bool { return c.counts == r.counts }

// Stats returns the counts; levels are 0. Requests that wait were those when the counters were taken.
func (c ruleCounters) Stats() RuleStats {
	s := c.rest
	if c.counts != nil {
		c.counts.addTo(&s)
	}
	return s
}

// addTo adds the decisions.
func (c *counters) addTo(s *RuleStats) {
	for i := range c.stripes {
		for stage := range stageCount {
			n := &c.stripes[i].n[stage]
			s.Denied[stage] += n[0].Load()
			s.Allowed[stage] += n[1].Load()
		}
	}
	s.BadCosts += c.badCosts.Load()
	s.BadRates += c.badRates.Load()
	s.Audit = AuditStats(c.audit.Stats())
}

// AuditStats is what a rule has found out about itself: one client in 1024 is also counted
// exactly, as long as there is room, and its decisions are compared with P1 and P2. Of rules that
// count in windows or logs, have a MaxRate or a shared store it is empty, and what tiers decide is not in it.
type AuditStats struct {
	Clients       int     // that are audited now, of at most 256
	Requests      uint64  // that the sketch was asked about, and denials that were looked at
	FalseDenials  uint64  // of what fits what the client was admitted: P1 is broken
	FalseSuspects uint64  // requests that were checked exactly although their client was below θ·B: by collisions
	Excess        uint64  // requests that were admitted above the burst of P2, which is broken
	Estimated     float64 // sum of the sketch's estimates, in units
	Level         float64 // sum of the levels that they are of, in units
	Peak          float64 // the highest level of any client so far, as a share of the burst of P2
}

// FirstSeenClients estimates the distinct clients of all rules in the current
// window of the filter, 0 without a filter.
func (l *Limiter) FirstSeenClients() uint32 {
	if l.filter == nil {
		return 0
	}
	return l.filter.Clients()
}

// WaitStats counts the requests of a rule that were denied only for the moment. Waiting
// is how many wait now; of those that waited before, Admitted were admitted, Left were
// given up by their callers, and Denied were denied: their time had run out, another
// rule denied them, or waiting was stopped. Refused got no place because all that they
// could have were taken; they did not wait, nor did those that would have had to wait for
// longer than MaxWait, which are not counted here.
type WaitStats struct {
	Waiting                         int64
	Admitted, Left, Denied, Refused uint64
}
