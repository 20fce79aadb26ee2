package engine

import (
	"context"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/chain"
	"github.com/fastlimit/fastlimit/internal/queue"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// attempt is a request that may wait. Each of its rules decides as if it were the only one:
// when the request arrives, or when the request is first in that rule's queue. The request is admitted
// when all rules have admitted it. When one denies it, the charges of the others are refunded.
type attempt struct {
	limiter *Limiter
	charges []Charge
	at      stripe
	arrived time.Duration

	in    *slots // where it waits; nil: it has no slot yet
	taken takings

	// The decision so far: the admission by the last charge, or the denial.
	d  limit.Decision
	by int
}

// slots are a request's slots in queues, at most one for each charge. They are behind a pointer
// because charges would escape otherwise.
type slots struct{ all []slot }

// slot is a slot in the queue of a charge, and when the request gives it up.
type slot struct {
	*queue.Slot
	queues   *queue.Queues               // which the slot is in
	origin   *chain.Node[Rule, bansKept] // the rule it joined by, weakly referenced; nil for a named rate
	charge   int
	deadline time.Duration
	due      time.Duration // when to ask the rule next if it is first, else when to give up
	asked    bool          // since it became first
	moved    bool          // it asks a successor
}

// waiting reports whether the request has a slot.
func (w *attempt) waiting() bool { return w.in != nil && len(w.in.all) > 0 }

// arrive takes the request to its queues or to a decision. It reads all tables first, then
// joins queues, and charges last, so a flood that finds the queues full charges nothing.
func (w *attempt) arrive(ctx context.Context, now time.Duration) (denied bool) {
	var over, lined chargeSet // the charges that are denied; those of them that wait
	if w.limiter.bans {
		if d, by := checkAll(theBan, w.charges, now, w.at, &over); by >= 0 {
			return w.deny(d, by, now)
		}
	}
	banned := over
	d, by, held := w.checkTables(now, &over, &lined)
	for i := range w.charges {
		if !over.has(i) || banned.has(i) || held && lined.has(i) {
			continue
		}
		// A rule that lets requests wait has not denied one that another rule denies.
		r := w.charges[i].Rule
		if v, begun := w.record(i, now, r.queues == nil || i == by); begun && r.enforced && worse(&v, &d) {
			d, by = v, i
		}
	}
	if by >= 0 && !held {
		return w.deny(d, by, now)
	}
	if held && !w.join(by, now) {
		return true
	}
	for i := range w.charges {
		if lined.has(i) && i != by && !w.join(i, now) {
			return true
		}
	}
	for i := range w.charges {
		r := w.charges[i].Rule
		if over.has(i) || w.charges[i].Cost == 0 {
			continue
		}
		v, held := w.ask(ctx, i, now, r.queues != nil)
		switch {
		case v.Allowed || !r.enforced:
		case !held:
			return w.deny(v, i, now)
		case !w.join(i, now):
			return true
		}
	}
	return false
}

// checkTables is checkAll for tables and for requests that already wait. It adds denied charges to over, and
// also to lined if their rule lets the request wait. The request is held if all enforced rules that deny it
// do; by is the one with the longest RetryAfter in any case.
func (w *attempt) checkTables(now time.Duration, over, lined *chargeSet) (worst limit.Decision, by int, held bool) {
	by, held = -1, true
	for i := range w.charges {
		c := &w.charges[i]
		if over.has(i) {
			continue
		}
		d, denied := c.Rule.known(c.Key.digest(), c.Cost, now)
		if c.Rule.queues != nil && c.Cost > 0 {
			d, denied = c.behind(d, denied, now)
		}
		if !denied {
			continue
		}
		over.add(i)
		if !c.Rule.enforced {
			continue
		}
		if c.Rule.queues != nil && c.mayWait(&d) {
			lined.add(i)
		} else {
			held = false
		}
		if by < 0 || d.RetryAfter > worst.RetryAfter {
			worst, by = d, i
		}
	}
	return worst, by, held && by >= 0
}

// behind returns the denial of a request that would wait behind others: d, with their wait added.
func (c *Charge) behind(d limit.Decision, denied bool, now time.Duration) (limit.Decision, bool) {
	r, digest := c.Rule, c.Key.digest()
	ahead, any := r.ahead(r.queues, digest)
	if !any {
		return d, denied
	}
	cost := r.buckets.Shape.Cost(c.Cost)
	if !denied {
		d = r.buckets.LeakyDecision(limit.StageTable, false, r.buckets.Table.Lookup(digest), now, cost)
		d.Remaining = min(d.Remaining, r.below(c.Cost))
	}
	d.RetryAfter = max(r.buckets.Until(digest, ahead, cost, now), time.Microsecond)
	return d, true
}

// ahead returns the ticks that requests in the queue of d ask for, and whether there are any.
func (r *Rule) ahead(s *queue.Queues, d sketch.Digest) (ticks uint64, any bool) {
	return s.Ahead(d, r.buckets.Shape.StoredUnit())
}

// mayWait reports whether a denied request may wait. It may not if [limit.FailClosed] denied it, because
// nobody knows for how long.
func (c *Charge) mayWait(d *limit.Decision) bool {
	return c.Cost > 0 && d.RetryAfter != bucket.Never && !(d.Degraded && c.Rule.config.OnFailure == limit.FailClosed)
}

// join gives the request a slot in the queue of charge i, or denies it.
func (w *attempt) join(i int, now time.Duration) bool {
	var other *queue.Slot
	if w.in != nil {
		other = w.in.all[0].Slot
	}
	c := &w.charges[i]
	r, deadline := c.Rule, w.arrived+c.Rule.config.MaxWait
	p, wait, tooLong := r.queues.Join(&queue.Request{
		Client: c.Key.digest(), Cost: r.buckets.Shape.Cost(c.Cost), Unit: r.buckets.Shape.StoredUnit(),
		Now: now, Deadline: deadline, Limits: w.limiter.waitLimits, Other: other,
	}, &r.buckets)
	if p == nil {
		w.denyFor(i, now, wait, tooLong)
		return false
	}
	w.addSlot(i, p, deadline)
	return true
}

// addSlot records the slot of charge i. It is not inlined, because each waiting request would keep the stack
// that join needs (TestManyWaiters).
//
//go:noinline
func (w *attempt) addSlot(i int, p *queue.Slot, deadline time.Duration) {
	if w.in == nil {
		w.in = new(slots)
	}
	r := w.charges[i].Rule
	w.in.all = append(w.in.all, slot{Slot: p, queues: r.queues, origin: r.next.node, charge: i, deadline: deadline, due: deadline + waitSlack})
}

// ask is the second half of takeAll for one charge. held reports that the charge is denied for
// now and may wait. In that case nothing is charged, and the denial is not counted.
func (w *attempt) ask(ctx context.Context, i int, now time.Duration, hold bool) (v limit.Decision, held bool) {
	c := &w.charges[i]
	v = admitUnchecked(c.Rule.screen(c.Key, c.Cost, now, w.at))
	if v.Stage == limit.StageExact {
		v, _ = c.Rule.charge(ctx, c.Key, c.Cost, false, now)
		if !v.Allowed && hold && c.Rule.enforced && ctx.Err() == nil && c.mayWait(&v) {
			return v, true
		}
		v = c.Rule.conclude(c.Key, v, now, w.at)
	}
	w.taken.add(i, c, &v)
	if v.Allowed && c.Rule.enforced && i > w.by {
		w.d, w.by = v, i
	}
	return v, false
}

// deny ends the request with a denial that is already recorded, and refunds the other charges. It
// returns true.
func (w *attempt) deny(d limit.Decision, by int, now time.Duration) bool {
	w.d, w.by = d, by
	w.taken.refund(w.charges, now)
	return true
}

// denyFor is deny by the queue of charge i, where the units would fit after wait; 0 means that wait is
// not known. The denial counts towards a ban only if counts is set: a denial because the queue is
// full, the deadline has passed or waiting has stopped is not due to the client's units alone.
func (w *attempt) denyFor(i int, now, wait time.Duration, counts bool) bool {
	c := &w.charges[i]
	r, digest, cost := c.Rule, c.Key.digest(), c.Rule.buckets.Shape.Cost(c.Cost)
	if wait == 0 {
		wait = max(r.buckets.Until(digest, w.ahead(i), cost, now), time.Microsecond)
	}
	d := r.buckets.LeakyDecision(limit.StageTable, false, r.buckets.Table.Lookup(digest), now, cost)
	d.RetryAfter = wait
	if wait != bucket.Never {
		d.Remaining = min(d.Remaining, r.below(c.Cost))
	}
	if v, begun := w.record(i, now, counts); begun {
		d = v
	}
	return w.deny(d, i, now)
}

// ahead returns the ticks of its rule that the requests ahead of this one in the queue of charge i ask for.
func (w *attempt) ahead(i int) uint64 {
	c := &w.charges[i]
	if w.in != nil {
		for at := range w.in.all {
			if p := &w.in.all[at]; p.charge == i {
				ahead, _ := c.Rule.ahead(p.queues, c.Key.digest())
				return ahead - min(ahead, c.Rule.buckets.Shape.Cost(c.Cost))
			}
		}
	}
	ahead, _ := c.Rule.ahead(c.Rule.queues, c.Key.digest())
	return ahead
}

// record records a denial by this node's table, and counts it towards a ban if counts is set. If that
// begins a ban, it returns the ban's decision.
func (w *attempt) record(i int, now time.Duration, counts bool) (v limit.Decision, begun bool) {
	c := &w.charges[i]
	v.Stage = limit.StageTable
	if counts {
		v = c.Rule.deny(c.Key, v, c.Cost, now, w.at)
	} else {
		c.Rule.recordDenial(c.Key.digest(), c.Cost, v.Stage, w.at)
	}
	return v, v.Stage == limit.StageBan
}
