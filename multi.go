package fastlimit

import (
	"context"
	"fmt"
	"time"
)

// Charge asks for N units of one rule for one client.
type Charge struct {
	Rule *Rule
	Key  Key
	N    uint64
}

// MaxCharges is the largest number of charges of one request.
const MaxCharges = MaxRules

// TakeAll decides on one request that several rules apply to: it is admitted
// if every enforced rule admits it. A request that one rule denies is not
// charged to the buckets of the others. Shadow rules count what they would
// have done and change nothing. It does not allocate. At most [MaxCharges]
// charges, each of another rule of this limiter.
//
// It returns the decision and the index of the charge that it is by: of a
// denial the one with the longest RetryAfter, of an admission the last
// enforced one, -1 if there is none.
func (l *Limiter) TakeAll(ctx context.Context, charges []Charge) (d Decision, by int) {
	l.check(charges)
	return l.takeAll(ctx, charges, l.clock.follow(l.clock.read()))
}

// TakeAllRead is TakeAll for a caller that has read the clock for this request
// already, right before the call: read is what [time.Now] returned, with its
// monotonic part. The request counts as in flight from the reading on.
func (l *Limiter) TakeAllRead(ctx context.Context, charges []Charge, read time.Time) (d Decision, by int) {
	l.check(charges)
	return l.takeAll(ctx, charges, l.clock.follow(read.Sub(l.clock.start)))
}

// TakeAllAt is TakeAll at a time that the caller brings; see [Rule.TakeAt].
func (l *Limiter) TakeAllAt(ctx context.Context, charges []Charge, now time.Duration) (d Decision, by int) {
	l.check(charges)
	if l.stored {
		panicAt("TakeAllAt", "TakeAll or TakeAllRead")
	}
	return l.takeAll(ctx, charges, l.clock.settle(now))
}

// check panics on charges that can only be a mistake of the caller's.
func (l *Limiter) check(charges []Charge) {
	if len(charges) > MaxCharges {
		panic("BUG: fastlimit: more charges than MaxCharges")
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
type chargeSet [MaxCharges / 64]uint64

func (s *chargeSet) add(i int)      { s[i>>6&3] |= 1 << (i & 63) }
func (s *chargeSet) has(i int) bool { return s[i>>6&3]>>(i&63)&1 != 0 }

func (l *Limiter) takeAll(ctx context.Context, charges []Charge, now time.Duration) (d Decision, by int) {
	if len(charges) == 1 && charges[0].Rule.enforced {
		c := &charges[0]
		return c.Rule.take(ctx, c.Key, c.N, now, lentLane(charges)), 0
	}
	// All that the table knows first, by reading: a flood that one rule sheds
	// costs the others nothing.
	var over chargeSet
	at := lentLane(charges)
	if d, by = l.verdicts(at, charges, now, &over); by >= 0 {
		return d, by
	}
	d = passed(StageFilter)
	var taken, takenHere chargeSet
	for i := range charges {
		c := &charges[i]
		if over.has(i) || c.N == 0 {
			continue
		}
		r := c.Rule
		ticks, cost := r.shape.Ticks(now), r.shape.Cost(c.N)
		own := passed(r.unchecked(at, c.Key, c.N, now, ticks))
		if own.Stage == StageExact {
			// One deadline for all rules: a request waits once.
			own = r.exact(ctx, at, c.Key, cost, now, now+l.plan.timeout)
			switch {
			case own.Allowed && own.Stage == StageExact:
				taken.add(i)
			case own.Allowed && r.config.OnFailure == FailLocal:
				takenHere.add(i) // FailOpen charges nobody
			}
		}
		if !r.enforced {
			continue
		}
		if !own.Allowed {
			l.giveBack(charges[:i], &taken, &takenHere, now)
			return own, i
		}
		d, by = own, i
	}
	return d, by
}

// verdicts reads the table for every charge. It sets over to the charges that
// are denied and returns the enforced denial with the longest RetryAfter and
// its index, or -1.
func (l *Limiter) verdicts(at lane, charges []Charge, now time.Duration, over *chargeSet) (worst Decision, by int) {
	by = -1
	for i := range charges {
		c := &charges[i]
		r := c.Rule
		ticks, cost := r.shape.Ticks(now), r.shape.Cost(c.N)
		tat := r.table.Lookup(c.Key.digest())
		if r.shape.Fits(tat, ticks, cost) {
			continue
		}
		// A reading that was overtaken does not convict; see clock.
		if ticks = r.shape.Ticks(l.clock.late(now)); r.shape.Fits(tat, ticks, cost) {
			continue
		}
		over.add(i)
		if serial := r.counts.add(at, StageTable, false); r.talkers != nil && r.talkers.Drawn(serial, c.N) {
			r.talkers.Shed(c.Key.digest(), c.N)
		}
		if !r.enforced {
			continue
		}
		if d := r.denied(StageTable, tat, ticks, cost); by < 0 || d.RetryAfter > worst.RetryAfter {
			worst, by = d, i
		}
	}
	return worst, by
}

// giveBack returns what was taken from exact buckets, and what failure policies
// took from this node's.
func (l *Limiter) giveBack(charges []Charge, taken, takenHere *chargeSet, now time.Duration) {
	for i := range charges {
		c := &charges[i]
		r := c.Rule
		switch {
		case taken.has(i):
			r.giveBack(c.Key, r.shape.Cost(c.N), now)
		case takenHere.has(i):
			r.shared.giveBackLocal(c.Key, r.shape.Cost(c.N))
		}
	}
}
