package fastlimit

import (
	"reflect"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/window"
)

// With returns a limiter of another configuration that goes on with the state
// of this one. Both may be used at once, for as long as it takes the requests
// that have l to finish; then drop l. Its memory is that of the rules which
// begin anew, on top of what l has until it is dropped.
//
// A rule keeps its state if it stays the same rule: Name, KeyKind, prefixes,
// rate, burst, Thousandths, EscalateAt, Strict, CountDenied and [Config.StoreTimeout] equal, and its sketch
// and table of the same sizes ([Plan]; those of a rule can change with the
// others'). Then it has the same buckets, sketch, counters, operations in flight
// and keys: whoever is denied stays denied, and a [Key] that one of the two rules
// made is good for both. Top talkers stay if [Config.TopTalkers] does; Mode, Cost
// and OnFailure take effect at once. Bans stay too, but for those of a shadow rule that
// is enforced from now on. With another [Config.Store] the table goes
// on and tells the new store what it knows. All other rules begin anew, with
// empty buckets.
//
// The time goes on, so Clock is that of l or nil. The first-seen filter goes on
// if its window and size stay. Else it begins anew and admits nobody as first
// seen for a window, since it does not know whom the old one admitted: until
// then the sketch is asked about every request.
//
// A zero Secret means that of l; with another one all rules begin anew.
func (l *Limiter) With(c Config) (*Limiter, error) {
	l.checkMade()
	plan, err := NewPlan(c)
	if err != nil {
		return nil, err
	}
	if c.Clock == nil {
		c.Clock = l.manual
	}
	if c.Clock != l.manual {
		return nil, &FieldError{Package: "fastlimit", Field: "Clock", Problem: "not that of the limiter before", Fix: "leave it nil"}
	}
	if c.Secret == ([32]byte{}) {
		c.Secret = l.secret
	}
	return newLimiter(plan, &c, l)
}

// keeps returns the rule whose state a rule of these settings takes over, or
// nil. l may be nil.
func (l *Limiter) keeps(rp *RulePlan, c *Config) *Rule {
	if l == nil || l.secret != c.Secret {
		return nil
	}
	r, ok := l.byName[rp.Config.Name]
	if !ok {
		return nil
	}
	was, is, old := &r.config, &rp.Config, &l.plan.Rules[r.index]
	sameLimit := was.identity() == is.identity() && old.slack == rp.slack
	sameChecks := *was.EscalateAt == *is.EscalateAt && was.Strict == is.Strict && was.CountDenied == is.CountDenied
	sameSizes := old.blocks == rp.blocks && old.sets == rp.sets
	if !sameLimit || !sameChecks || !sameSizes || (r.shared == nil) != (c.Store == nil) {
		return nil
	}
	return r
}

// Continues reports whether r counts on where old does, because [Limiter.With]
// took its state over: for those who keep counts of their own beside the rule's.
func (r *Rule) Continues(old *Rule) bool { return r.counts == old.counts }

// adopt takes over the state of old. It copies what points to it, so that a
// request finds it where it found it before, without another step.
func (r *Rule) adopt(old *Rule, rp *RulePlan, c *Config) error {
	r.hasher, r.tag, r.others = old.hasher, old.tag, old.others
	r.counts, r.buckets = old.counts, old.buckets
	if r.sketch != nil {
		r.cells = old.cells.Share(r.sketchLimit(rp))
	}
	r.shared = r.sharedOf(old, r, c)
	if old.talkers != nil && old.talkers.Slots() == rp.TopTalkers {
		r.talkers = old.talkers
		return nil
	}
	return r.beginTalkers(rp)
}

// sameStore compares stores of any type, also of one that == panics on.
func sameStore(a, b bucket.Store) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// setFilter makes the first-seen filter in fresh, or goes on with that of old.
func (l *Limiter) setFilter(old *Limiter, fresh *window.Filter, now time.Duration) error {
	p := &l.plan
	if p.Window == 0 {
		return nil
	}
	if old != nil && old.plan.Window == p.Window && old.plan.filterWords == p.filterWords {
		l.filter = old.filter
		return nil
	}
	l.filter = fresh
	if err := fresh.Init(p.Window, p.filterWords, now); err != nil {
		return err
	}
	if old != nil {
		fresh.KnowEverybody()
	}
	return nil
}
