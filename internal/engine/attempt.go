package engine

import (
	"context"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/line"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// attempt is a request that may wait. Each of its rules decides on it as if it were the only
// one: when the request comes, or when its turn comes in that rule's line. It is admitted
// when all have admitted it. When one denies it, all others get back what they have charged.
type attempt struct {
	limiter *Limiter
	charges []Charge
	at      stripe
	came    time.Duration

	in    *stands // where it waits; nil: nowhere yet
	taken takings

	// The decision so far: the admission by the last charge, or the denial.
	d  limit.Decision
	by int
}

// stands are the places of a request, of each charge at most one. Behind a pointer, as else
// charges would escape.
type stands struct{ places []stand }

// stand is a place in the line of a charge, and when the request gives it up.
type stand struct {
	*line.Place
	lines    *ruleLines // where that is
	charge   int
	deadline time.Duration
	due      time.Duration // when to ask next, of the first, or to give up
	asked    bool          // as the first
	moved    bool          // asks an heir
}

// waits reports whether the request has a place.
func (w *attempt) waits() bool { return w.in != nil && len(w.in.places) > 0 }

// come is the request's way to where it waits, or to a decision. All tables come first, by
// reading, then the lines, so that a flood that finds no place charges nothing.
func (w *attempt) come(ctx context.Context, now time.Duration) (denied bool) {
	var over, lined chargeSet // the charges that are denied; those of them that wait
	if w.limiter.bans {
		if d, by := checkAll(theBan, w.charges, now, w.at, &over); by >= 0 {
			return w.deny(d, by, now)
		}
	}
	banned := over
	d, by, held := w.look(now, &over, &lined)
	for i := range w.charges {
		if !over.has(i) || banned.has(i) || held && lined.has(i) {
			continue
		}
		// A rule that lets requests wait has not denied one that another rule denies.
		r := w.charges[i].Rule
		if v, begun := w.record(i, now, r.lines == nil || i == by); begun && r.enforced && worse(&v, &d) {
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
		v, held := w.ask(ctx, i, now, r.lines != nil)
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

// look is checkAll of tables, and behind those who wait already. It adds to over the
// charges that are denied, and to lined those of rules that let the request wait. If
// all enforced ones do, it is held, by the one that does for the longest time; else it is denied by that one
// of them all.
func (w *attempt) look(now time.Duration, over, lined *chargeSet) (worst limit.Decision, by int, held bool) {
	by, held = -1, true
	for i := range w.charges {
		c := &w.charges[i]
		if over.has(i) {
			continue
		}
		d, denied := c.Rule.known(c.Key.digest(), c.Cost, now)
		if c.Rule.lines != nil && c.Cost > 0 {
			d, denied = c.behind(d, denied, now)
		}
		if !denied {
			continue
		}
		over.add(i)
		if !c.Rule.enforced {
			continue
		}
		if c.Rule.lines != nil && c.holds(&d) {
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

// behind is the denial d, if there is one, for a request that has to get in line.
func (c *Charge) behind(d limit.Decision, denied bool, now time.Duration) (limit.Decision, bool) {
	r, digest := c.Rule, c.Key.digest()
	ahead, any := r.ahead(r.lines, digest)
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

// ahead returns the ticks that those ask for who wait in lines for the bucket of d, and
// whether there are any.
func (r *Rule) ahead(s *ruleLines, d sketch.Digest) (ticks uint64, any bool) {
	return s.Ahead(d, r.buckets.Shape.StoredUnit())
}

// holds reports whether a request may wait that the rule denies for now. What
// [FailClosed] denies does not: nobody knows until when.
func (c *Charge) holds(d *limit.Decision) bool {
	return c.Cost > 0 && d.RetryAfter != bucket.Never && !(d.Degraded && c.Rule.config.OnFailure == limit.FailClosed)
}

// join gets the request a place in the line of charge i, or has it denied.
func (w *attempt) join(i int, now time.Duration) bool {
	var beside *line.Place
	if w.in != nil {
		beside = w.in.places[0].Place
	}
	c := &w.charges[i]
	r, deadline := c.Rule, w.came+c.Rule.config.MaxWait
	p, wait, tooLong := r.lines.Join(&line.Request{
		Client: c.Key.digest(), Cost: r.buckets.Shape.Cost(c.Cost), Unit: r.buckets.Shape.StoredUnit(),
		Now: now, Deadline: deadline, Limits: w.limiter.waitLimits, Beside: beside,
	}, &r.buckets)
	if p == nil {
		w.denyFor(i, now, wait, tooLong)
		return false
	}
	w.stand(i, p, deadline)
	return true
}

// stand notes that p is a place in the line of charge i. It is not inlined, as each waiting request
// has the stack that join needs (TestManyWaiters).
//
//go:noinline
func (w *attempt) stand(i int, p *line.Place, deadline time.Duration) {
	if w.in == nil {
		w.in = new(stands)
	}
	w.in.places = append(w.in.places, stand{Place: p, lines: w.charges[i].Rule.lines, charge: i, deadline: deadline, due: deadline + waitSlack})
}

// ask is the second half of takeAll for one charge. held tells that it is denied only for now,
// where it may wait: then nothing is charged, and the denial is not counted.
func (w *attempt) ask(ctx context.Context, i int, now time.Duration, mayWait bool) (v limit.Decision, held bool) {
	c := &w.charges[i]
	v = admitUnchecked(c.Rule.screen(c.Key, c.Cost, now, w.at))
	if v.Stage == limit.StageExact {
		v, _ = c.Rule.charge(ctx, c.Key, c.Cost, false, now)
		if !v.Allowed && mayWait && c.Rule.enforced && ctx.Err() == nil && c.holds(&v) {
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

// deny ends the request with a denial that is recorded, and gives back what the other charges
// have taken. It returns true.
func (w *attempt) deny(d limit.Decision, by int, now time.Duration) bool {
	w.d, w.by = d, by
	w.taken.refund(w.charges, now)
	return true
}

// denyFor is deny by the line of charge i, where its units would fit after wait; 0 means that
// nobody has looked. It counts towards a ban if asked to: what is for want of places, or of a
// turn, or because nobody waits any more, is not by the client's own units alone.
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

// ahead is what others ask for in the line of charge i, in ticks of its rule.
func (w *attempt) ahead(i int) uint64 {
	c := &w.charges[i]
	if w.in != nil {
		for at := range w.in.places {
			if p := &w.in.places[at]; p.charge == i {
				ahead, _ := c.Rule.ahead(p.lines, c.Key.digest())
				return ahead - min(ahead, c.Rule.buckets.Shape.Cost(c.Cost))
			}
		}
	}
	ahead, _ := c.Rule.ahead(c.Rule.lines, c.Key.digest())
	return ahead
}

// record records a denial by this node's table, and counts it towards a ban if asked to. It
// returns the decision if a ban has begun with it.
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
