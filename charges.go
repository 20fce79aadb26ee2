package fastlimit

import (
	"context"
	"fmt"
	"time"
)

// Charge asks for units of one rule for one client.
type Charge struct {
	Rule *Rule
	Key  Key    // made by Rule
	Cost uint64 // in units; 0 asks and takes nothing
}

// TakeAll decides on one request that several rules apply to: it is admitted
// if every enforced rule admits it. A request that one rule denies is not
// charged to the buckets of the others. Shadow rules count what they would
// have done and change nothing. It does not allocate. At most [MaxRules]
// charges, each of another rule of this limiter.
//
// It returns the decision and the index of the charge that it is by: of a
// denial the one with the longest RetryAfter, a ban before all others, of an admission the last
// enforced one, -1 if there is none.
func (l *Limiter) TakeAll(ctx context.Context, charges []Charge) (d Decision, by int) {
	l.check(charges)
	return l.takeAll(ctx, charges, l.clock.Now())
}

// TakeAllAt is TakeAll for a caller that has read the clock for this request
// already, right before the call: at is what [time.Now] returned, with its
// monotonic part. The request counts as in flight from the reading on. A
// limiter with a [Config.Clock] has its time from there: call TakeAll.
func (l *Limiter) TakeAllAt(ctx context.Context, charges []Charge, at time.Time) (d Decision, by int) {
	l.check(charges)
	if !l.clock.IsMachine() {
		panic("BUG: fastlimit: TakeAllAt on a limiter with a Clock, which tells the time: call TakeAll")
	}
	return l.takeAll(ctx, charges, l.clock.Follow(l.clock.OnLine(at)))
}

// check panics on charges that can only be a mistake of the caller's.
func (l *Limiter) check(charges []Charge) {
	l.checkMade()
	if len(charges) > MaxRules {
		panic("BUG: fastlimit: more charges than MaxRules")
	}
	for i := range charges {
		c := &charges[i]
		if c.Rule == nil || c.Rule.limiter != l {
			panic(fmt.Sprintf("BUG: fastlimit: charge %d: %s", i, strayRule(c.Rule)))
		}
		c.Rule.check(c.Key)
	}
}

func strayRule(r *Rule) string {
	switch {
	case r == nil:
		return "its Rule is nil"
	case r.limiter == nil:
		return "its Rule was not made by New: get it from Limiter.Rule"
	}
	return fmt.Sprintf("rule %q belongs to another Limiter", r.config.Name)
}

// chargeSet is a set of indices of charges.
type chargeSet [MaxRules / 64]uint64

func (s *chargeSet) add(i int)      { s[i>>6&3] |= 1 << (i & 63) }
func (s *chargeSet) has(i int) bool { return s[i>>6&3]>>(i&63)&1 != 0 }

// takeAll runs the pipeline for several rules: all of their tables first, by
// reading, so that a flood that one rule sheds costs the others nothing; then
// rule by rule, until one of them denies.
func (l *Limiter) takeAll(ctx context.Context, charges []Charge, now time.Duration) (d Decision, by int) {
	at := stripeFor(charges)
	if len(charges) == 1 && charges[0].Rule.enforced { // the same without the accounts
		c := &charges[0]
		return c.Rule.take(ctx, c.Key, c.Cost, now, at), 0
	}
	var over chargeSet
	if l.bans {
		if d, by = l.checkBans(charges, now, at, &over); by >= 0 {
			return d, by
		}
	}
	if d, by = l.checkTables(charges, now, at, &over); by >= 0 {
		return d, by
	}
	d = admitUnchecked(StageFilter)
	var taken, takenHere chargeSet
	for i := range charges {
		c := &charges[i]
		if over.has(i) || c.Cost == 0 {
			continue
		}
		v := admitUnchecked(c.Rule.screen(c.Key, c.Cost, now, at))
		if v.Stage == StageExact {
			v = c.Rule.exact(ctx, c.Key, c.Cost, now, at)
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
			l.refund(charges[:i], &taken, &takenHere, now)
			return v, i
		}
		d, by = v, i
	}
	return d, by
}

// checkTables checks the table of every charge that is not in over. It sets over to the charges
// that are denied and returns the enforced denial with the longest RetryAfter
// and its index, or -1.
func (l *Limiter) checkTables(charges []Charge, now time.Duration, at stripe, over *chargeSet) (worst Decision, by int) {
	by = -1
	for i := range charges {
		c := &charges[i]
		if over.has(i) {
			continue
		}
		d, denied := c.Rule.checkTable(c.Key, c.Cost, now, at)
		if !denied {
			continue
		}
		over.add(i)
		if c.Rule.enforced && (by < 0 || worse(&d, &worst)) {
			worst, by = d, i
		}
	}
	return worst, by
}

// worse reports whether a denial is told rather than another: a ban before what is none,
// then the one that lasts longer.
func worse(a, b *Decision) bool {
	if ban := a.Stage == StageBan; ban != (b.Stage == StageBan) {
		return ban
	}
	return a.RetryAfter > b.RetryAfter
}

// checkBans is checkTables for bans, which come before all tables: a banned request changes
// nothing else.
func (l *Limiter) checkBans(charges []Charge, now time.Duration, at stripe, over *chargeSet) (worst Decision, by int) {
	by = -1
	for i := range charges {
		c := &charges[i]
		d, denied := c.Rule.checkBan(c.Key.digest(), c.Cost, now, at)
		if !denied {
			continue
		}
		over.add(i)
		if c.Rule.enforced && (by < 0 || worse(&d, &worst)) {
			worst, by = d, i
		}
	}
	return worst, by
}

// refund returns what was taken from exact buckets, and what failure policies
// took from this node's.
func (l *Limiter) refund(charges []Charge, taken, takenHere *chargeSet, now time.Duration) {
	for i := range charges {
		c := &charges[i]
		switch {
		case taken.has(i):
			c.Rule.refund(c.Key, c.Cost, now)
		case takenHere.has(i):
			c.Rule.shared.RefundHere(c.Key.digest(), c.Rule.buckets.Shape.Cost(c.Cost))
		}
	}
}
