package fastlimit

import (
	"context"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// try is takeAll for a request that may wait. held tells that it is denied only for now:
// then nothing is charged, and the denial is not counted.
func (w *attempt) try(ctx context.Context, now time.Duration) (d Decision, by int, held bool) {
	var over chargeSet
	if w.limiter.bans {
		if d, by = w.limiter.checkBans(w.charges, now, w.at, &over); by >= 0 {
			return d, by, false
		}
	}
	banned := over
	if d, by, held = w.look(now, &over); held {
		return d, by, true
	}
	for i := range w.charges {
		if !over.has(i) || banned.has(i) {
			continue
		}
		// A rule that lets requests wait has not denied one that another rule denies.
		r := w.charges[i].Rule
		if v, begun := w.record(i, now, r.lines == nil || i == by); begun && r.enforced && worse(&v, &d) {
			d, by = v, i
		}
	}
	if by >= 0 {
		return d, by, false
	}
	return w.charge(ctx, now, &over)
}

// look is checkTables: by reading, and behind those who wait already. It adds to over the
// charges that are denied. If all enforced ones of these hold the request, it is held by
// the one that does for the longest time; else it is denied by that one of them all.
func (w *attempt) look(now time.Duration, over *chargeSet) (worst Decision, by int, held bool) {
	by, held = -1, true
	for i := range w.charges {
		c := &w.charges[i]
		if over.has(i) {
			continue
		}
		d, denied := c.known(now)
		if c.Rule.lines != nil && i != w.in && c.Cost > 0 {
			d, denied = c.behind(d, denied, now)
		}
		if !denied {
			continue
		}
		over.add(i)
		if !c.Rule.enforced {
			continue
		}
		held = held && c.Rule.holds(c, &d)
		if by < 0 || d.RetryAfter > worst.RetryAfter {
			worst, by = d, i
		}
	}
	return worst, by, held && by >= 0
}

// known is checkTable without its counts: a denial by the table, by reading alone.
func (c *Charge) known(now time.Duration) (d Decision, denied bool) {
	r, digest := c.Rule, c.Key.digest()
	cost, tat := r.shape.Cost(c.Cost), r.table.Lookup(digest)
	if r.shape.Fits(tat, r.ticks(now), cost) {
		return d, false
	}
	// A reading that another one has overtaken does not convict; see clock.
	now = r.clock.late(now)
	if ticks := r.ticks(now); r.shape.Fits(tat, ticks, cost) || !r.stands(tat, ticks) {
		return d, false
	}
	return r.decisionOn(digest, StageTable, false, tat, now, cost), true
}

// behind is the denial d, if there is one, for a request that has to get in line.
func (c *Charge) behind(d Decision, denied bool, now time.Duration) (Decision, bool) {
	r, digest := c.Rule, c.Key.digest()
	ahead, any := r.ahead(digest)
	if !any {
		return d, denied
	}
	cost := r.shape.Cost(c.Cost)
	if !denied {
		d = r.decision(StageTable, false, r.table.Lookup(digest), now, cost)
		d.Remaining = min(d.Remaining, r.below(c.Cost))
	}
	d.RetryAfter = max(r.until(digest, ahead, cost, now), time.Microsecond)
	return d, true
}

// holds reports whether the rule lets a request wait that it denies for now. What
// [FailClosed] denies does not wait: nobody knows until when.
func (r *Rule) holds(c *Charge, d *Decision) bool {
	return r.lines != nil && c.Cost > 0 && d.RetryAfter != bucket.Never && !(d.Degraded && r.config.OnFailure == FailClosed)
}

// charge is the second half of takeAll.
func (w *attempt) charge(ctx context.Context, now time.Duration, over *chargeSet) (d Decision, by int, held bool) {
	d, by = admitUnchecked(StageFilter), -1
	var taken, takenHere chargeSet
	for i := range w.charges {
		c := &w.charges[i]
		if over.has(i) || c.Cost == 0 {
			continue
		}
		v := admitUnchecked(c.Rule.screen(c.Key, c.Cost, now, w.at))
		if v.Stage == StageExact {
			v = c.exact(ctx, now)
			held = !v.Allowed && c.Rule.enforced && ctx.Err() == nil && c.Rule.holds(c, &v)
			if !held && !v.Allowed && c.Rule.bans != nil {
				v = c.Rule.convictExact(c.Key, v, now)
			}
			if !held {
				c.Rule.counts.record(w.at, v.Stage, v.Allowed)
			}
		}
		switch {
		case !v.Allowed:
		case v.Stage == StageExact:
			taken.add(i)
		case v.Stage == StageFallback && c.Rule.config.OnFailure == FailLocal:
			takenHere.add(i) // FailOpen charges nobody
		}
		if !c.Rule.enforced {
			continue
		}
		if !v.Allowed {
			w.limiter.refund(w.charges[:i], &taken, &takenHere, now)
			return v, i, held
		}
		d, by = v, i
	}
	return d, by, false
}

// exact is [Rule.exact] without its count.
func (c *Charge) exact(ctx context.Context, now time.Duration) (d Decision) {
	r := c.Rule
	cost := r.shape.Cost(c.Cost)
	if r.shared == nil {
		return r.buckets.take(c.Key.digest(), cost, now)
	}
	d, _ = r.shared.take(ctx, c.Key, claim{cost, 1, now + r.shared.timeout, r.config.OnFailure})
	return d
}
