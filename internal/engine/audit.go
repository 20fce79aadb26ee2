package engine

import (
	"time"

	"github.com/fastlimit/fastlimit/internal/selfaudit"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// audit counts a sample of a rule's clients exactly; see package selfaudit. Rules that share buckets share
// the table. The zero value audits nobody.
//
// Only leaky buckets without a store are audited: a shared store also counts what other nodes
// admit, and a rule with named rates has one bucket for many limits. Tiers
// have no sketch that could be wrong.
type audit struct {
	table *selfaudit.Table
	rule  *selfaudit.Rule
}

// inVisit marks, in a stripe, a request whose visit the audit has already begun.
const inVisit stripe = 1 << 63

// beginAudit makes the rule's audit, or takes over that of old, which may be nil.
func (r *Rule) beginAudit(old *Rule) {
	if !r.buckets.Plain || r.shared != nil || r.config.MaxRate != (limit.Rate{}) {
		return
	}
	shape := &r.buckets.Shape
	most := shape.Most()
	judge := &selfaudit.Rule{Threshold: r.threshold, Most: most, Bound: r.threshold + most, Unit: shape.Unit(), Counts: &r.counts.audit}
	if r.filter != nil {
		judge.Bound += judge.Unit
	}
	if r.sampled = selfaudit.Sampled; old == nil || old.audit.table == nil || !r.buckets.Table.SameBuckets(&old.buckets.Table) {
		r.audit = audit{selfaudit.New(2*most + judge.Unit), judge}
		return
	}
	r.sampled, r.audit = old.sampled, audit{old.audit.table, judge}
	sameCells := r.sketch == nil && old.sketch == nil || r.sketch != nil && old.sketch != nil && r.cells.SameCells(&old.cells)
	if sameCells && r.filter == old.filter && r.threshold == old.threshold {
		r.audit.rule = old.audit.rule
	}
}

// transferAudit makes the audit judge by r from now on.
func (r *Rule) transferAudit(old *Rule) {
	switch was := old.audit.table; {
	case was == nil:
	case was == r.audit.table:
		was.Begin(r.audit.rule)
	case r.buckets.Table.SameBuckets(&old.buckets.Table):
		was.Stop()
	}
}

// strangerTime bounds how long a request may take from the sketch of one rule to buckets that it shares with
// another.
const strangerTime = 10 * time.Second

// doubtAudit tells the audit that buckets are being charged where it cannot see it.
func (r *Rule) doubtAudit() {
	if r.audit.table != nil {
		r.audit.table.Doubt(r.buckets.Ticks(r.buckets.Clock.Elapsed() + strangerTime))
	}
}

// doubtSuccessors calls doubtAudit for those successors of r whose audits cannot see what a request of r does
// to a client's bucket.
func (r *Rule) doubtSuccessors(d sketch.Digest) {
	for next, _ := r.next.node.Next(); next != nil; next, _ = next.next.node.Next() {
		if uint32(d.ID) < next.sampled && (uint32(d.ID) >= r.sampled || next.audit.table != r.audit.table) {
			next.doubtAudit()
		}
	}
}

// lateTicks returns a time no earlier than any reading of the clock before it.
func (r *Rule) lateTicks(now time.Duration) uint64 {
	return r.buckets.Ticks(max(now, r.buckets.Clock.Elapsed()))
}

func (r *Rule) visit(d sketch.Digest, now time.Duration) selfaudit.Visit {
	v := r.audit.table.Visit(r.audit.rule, d, r.lateTicks(now), r.buckets.Table.Evictions())
	if v.Fresh() {
		v.Holds(r.buckets.Table.LookupLocked(d))
	}
	return v
}

func (r *Rule) auditTimes(now time.Duration) selfaudit.Times {
	return selfaudit.Times{Now: r.buckets.Ticks(now), Late: r.lateTicks(now)}
}

// screenAudited is screen for a client that is audited.
func (r *Rule) screenAudited(key Key, n uint64, now time.Duration, at stripe) limit.Stage {
	d, cost, estimate := key.digest(), r.buckets.Shape.Cost(n), uint64(0)
	v := r.visit(d, now)
	defer v.Leave()
	stage := r.screen(key, n, now, at|inVisit)
	if r.sketch != nil && stage != limit.StageFilter {
		estimate = r.sketch.Level(d, r.buckets.SketchTicks(now))
	}
	times := r.auditTimes(now)
	v.Screened(times, estimate, cost, stage == limit.StageExact)
	if stage != limit.StageExact {
		v.Admitted(times, cost, r.buckets.Table.Evictions())
	}
	return stage
}

// takeAudited asks this node's bucket for an audited client.
func (r *Rule) takeAudited(d sketch.Digest, n uint64, upTo bool, now time.Duration) (v limit.Decision, taken uint64) {
	least, step := n, r.visit(d, now)
	defer step.Leave()
	if upTo {
		least = 1
		v, taken = r.buckets.TakeUpTo(d, n, now)
	} else if v = r.buckets.Take(d, r.buckets.Shape.Cost(n), now); v.Allowed {
		taken = n
	}
	times := r.auditTimes(now)
	if taken == 0 {
		step.Denied(times.Now, r.buckets.Shape.Cost(least))
	} else {
		step.Charged(times, r.buckets.Shape.Cost(taken), r.buckets.Table.Lookup(d), r.buckets.Table.Evictions())
	}
	return v, taken
}

// denyAudited reports a denial by the table to the audit. It is not inlined: that would take registers
// from every denial.
//
//go:noinline
func (r *Rule) denyAudited(d sketch.Digest, now, cost uint64) {
	r.audit.table.Denied(r.audit.rule, d, now, cost)
}

// refundAudited is refundTicks for a client that is audited.
func (r *Rule) refundAudited(d sketch.Digest, cost uint64, now time.Duration) {
	v := r.visit(d, now)
	defer v.Leave()
	r.buckets.Table.Refund(d, r.buckets.Ticks(now), cost)
	v.Refunded(r.buckets.Ticks(now), cost)
}

// resetAudited is Reset for a client that is audited.
func (r *Rule) resetAudited(d sketch.Digest) {
	now := r.time()
	v := r.visit(d, now)
	defer v.Leave()
	r.buckets.Table.Reset(d)
	v.Reset(r.lateTicks(now), r.buckets.Table.Evictions())
}

// auditStats adds the audit's results.
func (r *Rule) auditStats(at time.Duration) (clients int) {
	if r.audit.table == nil {
		return 0
	}
	return r.audit.table.Live(r.buckets.Ticks(at))
}

// addAudited is addToCells for a client that is audited.
func (r *Rule) addAudited(d sketch.Digest, cost uint64, now time.Duration) (suspect bool) {
	v := r.visit(d, now)
	defer v.Leave()
	if suspect = r.addToCells(d, cost, now); !suspect {
		v.Admitted(r.auditTimes(now), cost, r.buckets.Table.Evictions())
	}
	return suspect
}
