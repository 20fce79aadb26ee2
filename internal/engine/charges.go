package engine

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"github.com/fastlimit/fastlimit/limit"
)

// Charge asks for units of one rule for one client.
type Charge struct {
	Rule *Rule
	Key  Key    // made by Rule
	Cost uint64 // in units; 0 only asks
}

// Charges returns the same charges without copying. C is fastlimit.Charge, which has the same layout
// (asserted there).
func Charges[C any](charges []C) []Charge {
	return *(*[]Charge)(unsafe.Pointer(&charges))
}

// TakeAll is fastlimit.Limiter.TakeAll.
func (l *Limiter) TakeAll(ctx context.Context, charges []Charge) (d limit.Decision, by int) {
	l.check(charges)
	return l.takeAll(ctx, charges, l.clock.Now())
}

// read converts a caller's clock reading to the limiter's time, which it advances. If at is zero it reads the
// clock.
func (l *Limiter) read(at time.Time) time.Duration {
	if at.IsZero() {
		return l.clock.Now()
	}
	if !l.clock.IsMachine() {
		panic("BUG: fastlimit: a time read by the caller, for a limiter that has a Clock: call TakeAll or WaitAll")
	}
	return l.clock.Follow(l.clock.OnLine(at))
}

// check panics on charges that can only be a caller's mistake.
func (l *Limiter) check(charges []Charge) {
	l.checkMade()
	if len(charges) > limit.MaxRules {
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
type chargeSet [limit.MaxRules / 64]uint64

func (s *chargeSet) add(i int)      { s[i>>6&3] |= 1 << (i & 63) }
func (s *chargeSet) has(i int) bool { return s[i>>6&3]>>(i&63)&1 != 0 }

// takeAll runs the pipeline for several rules. It reads all of their tables first, so that
// a flood that one rule sheds costs the others nothing. Then it goes rule by rule, until
// one of them denies.
func (l *Limiter) takeAll(ctx context.Context, charges []Charge, now time.Duration) (d limit.Decision, by int) {
	at := stripeFor(charges)
	if len(charges) == 1 && charges[0].Rule.enforced { // the same without the accounts
		c := &charges[0]
		return c.Rule.take(ctx, c.Key, c.Cost, now, at), 0
	}
	var over chargeSet
	if l.bans { // a banned request changes nothing else
		if d, by = checkAll(theBan, charges, now, at, &over); by >= 0 {
			return d, by
		}
	}
	if d, by = checkAll(theTable, charges, now, at, &over); by >= 0 {
		return d, by
	}
	d = admitUnchecked(limit.StageFilter)
	var taken takings
	for i := range charges {
		c := &charges[i]
		if over.has(i) || c.Cost == 0 {
			continue
		}
		v := admitUnchecked(c.Rule.screen(c.Key, c.Cost, now, at))
		if v.Stage == limit.StageExact {
			v = c.Rule.exact(ctx, c.Key, c.Cost, now, at)
		}
		taken.add(i, c, &v)
		if !c.Rule.enforced {
			continue
		}
		if !v.Allowed {
			taken.refund(charges, now)
			return v, i
		}
		d, by = v, i
	}
	return d, by
}

// check is a step of the pipeline that reads only.
type check bool

const (
	theTable check = false
	theBan   check = true
)

// checkAll runs a step for every charge that is not in over. It adds denied charges to over, and returns the
// enforced denial with the longest RetryAfter and its index, or -1.
func checkAll(step check, charges []Charge, now time.Duration, at stripe, over *chargeSet) (worst limit.Decision, by int) {
	by = -1
	for i := range charges {
		c := &charges[i]
		if over.has(i) {
			continue
		}
		var d limit.Decision
		var denied bool
		if step == theBan {
			d, denied = c.Rule.checkBan(c.Key.digest(), c.Cost, now, at)
		} else {
			if d, denied = c.Rule.known(c.Key.digest(), c.Cost, now); denied {
				if c.Rule.bans != nil { // else deny, written out: a twentieth of BenchmarkDecide
					d = c.Rule.deny(c.Key, d, c.Cost, now, at)
				} else {
					c.Rule.recordDenial(c.Key.digest(), c.Cost, limit.StageTable, at)
				}
			}
		}
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

// someDenies reports whether an enforced rule has banned its client or knows it to be over its
// limit. It charges nothing.
func someDenies(charges []Charge, now time.Duration) bool {
	for i := range charges {
		if c := &charges[i]; c.Rule.enforced && c.Rule.denies(c.Key.digest(), c.Cost, now) {
			return true
		}
	}
	return false
}

// worse reports which of two denials to return: bans first, then the longer one.
func worse(a, b *limit.Decision) bool {
	if ban := a.Stage == limit.StageBan; ban != (b.Stage == limit.StageBan) {
		return ban
	}
	return a.RetryAfter > b.RetryAfter
}

// takings are the charges that have been taken, to be refunded if another rule denies.
type takings struct {
	exact chargeSet // from exact buckets
	here  chargeSet // from this node's buckets, by failure policies
}

// add notes how charge i was decided.
func (t *takings) add(i int, c *Charge, v *limit.Decision) {
	switch {
	case !v.Allowed:
	case v.Stage == limit.StageExact:
		t.exact.add(i)
	case v.Stage == limit.StageFallback && c.Rule.config.OnFailure == limit.FailLocal:
		t.here.add(i) // FailOpen charges nobody
	}
}

func (t *takings) refund(charges []Charge, now time.Duration) {
	for i := range charges {
		c := &charges[i]
		switch {
		case t.exact.has(i):
			c.Rule.refund(c.Key, c.Cost, now)
		case t.here.has(i):
			c.Rule.shared.RefundHere(c.Key.digest(), c.Rule.buckets.Shape.Cost(c.Cost))
		}
	}
}
