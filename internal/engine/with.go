package engine

import (
	"errors"
	"reflect"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/window"
)

// With is fastlimit.Limiter.With.
func (l *Limiter) With(c Config) (*Limiter, error) {
	l.checkMade()
	plan, err := c.Plan()
	if err != nil {
		return nil, err
	}
	if c.Clock == nil {
		c.Clock = l.manual
	}
	if c.Clock != l.manual {
		return nil, &limit.FieldError{Package: "fastlimit", Field: "Clock", Problem: "not that of the limiter before", Fix: "leave it nil"}
	}
	if c.Secret == ([32]byte{}) {
		c.Secret = l.secret
	}
	return newLimiter(plan, &c, l)
}

// predecessor returns the rule whose state a rule with these settings takes over: the one with the
// same name, key and prefixes. It returns nil if there is none. l may be nil.
func (l *Limiter) predecessor(rp *limit.RulePlan, c *Config) *Rule {
	if l == nil || l.secret != c.Secret {
		return nil
	}
	r, ok := l.byName[rp.Config.Name]
	if !ok || !r.config.SameClients(&rp.Config) {
		return nil
	}
	return r
}

// shareState makes r share with old what does not depend on the limit. It shares buckets and sketch too if
// they mean the same under both limits; else it makes empty ones, for transferFrom to fill.
func (r *Rule) shareState(old *Rule, rp *limit.RulePlan, c *Config) (err error) {
	r.hasher, r.tag, r.others, r.counts = old.hasher, old.tag, old.others, old.counts
	if err = r.shareBuckets(old, rp, c, nil); err != nil {
		return err
	}
	if r.sketch != nil {
		if old.sketch != nil && old.blocks() == max(1, rp.Blocks) && r.buckets.Shape.SameTicks(&old.buckets.Shape) {
			r.cells = old.cells.Share(rp.SketchLimit())
		} else if err = r.sketch.Init(max(1, rp.Blocks), rp.SketchLimit()); err != nil {
			return err
		}
	}
	if old.talkers != nil && old.talkers.Slots() == rp.TopTalkers && old.scale == r.scale {
		r.talkers = old.talkers
		return nil
	}
	return r.beginTalkers(rp)
}

func (r *Rule) blocks() int { return max(1, r.plan().Blocks) }

// shareBuckets gives a rule the buckets of old if their states mean the same under both limits, and else
// empty ones. For a tier, base is its rule's table. Operations in flight stay with the buckets.
func (r *Rule) shareBuckets(old *Rule, rp *limit.RulePlan, c *Config, base *bucket.Table) (err error) {
	is, was := &r.buckets, &old.buckets
	stays := rp.Shape == was.Shape && rp.Config.CountDenied == old.config.CountDenied
	r.beginShape(rp)
	switch {
	case was.Table.Buckets() == rp.Sets*4 && is.Shape.SharesStates(&was.Shape):
		is.Table = was.Table.At(rp.Shape)
	case base != nil:
		stays, err = false, is.Table.InitBeside(base, rp.Shape, rp.Sets)
	default:
		stays, err = false, is.Table.InitAfter(&was.Table, rp.Shape, rp.Sets)
	}
	switch {
	case c.Store == nil || err != nil:
	case stays && old.shared != nil && sameStore(old.shared.Store(), c.Store):
		r.shared = old.shared
	default:
		r.beginShared(c)
		r.shared.Distrust(r.buckets.Clock.Now()) // the table may know more
		if base != nil {
			r.shared.ShareDenials(r.base.shared)
		}
	}
	return err
}

// sameStore compares stores of any type, even one on which == panics.
func sameStore(a, b bucket.Store) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// setFilter shares the first-seen filter of old, or makes one in fresh.
func (l *Limiter) setFilter(old *Limiter, fresh *window.Filter, now time.Duration) error {
	p := &l.plan
	if p.Window == 0 {
		return nil
	}
	if old != nil && old.plan.Window == p.Window && old.plan.FilterWords == p.FilterWords {
		l.filter = old.filter
		return nil
	}
	l.filter = fresh
	if err := fresh.Init(p.Window, p.FilterWords, now); err != nil {
		return err
	}
	if old != nil {
		fresh.KnowEverybody()
	}
	return nil
}

// Merge is fastlimit.Limiter.Merge.
func (l *Limiter) Merge(from *Limiter) error {
	l.checkMade()
	from.checkMade()
	if l.secret != from.secret {
		return errors.New("fastlimit: a limiter of another Secret cannot be merged, as it has other names for the same clients")
	}
	if l == from {
		return nil
	}
	for i := range l.plan.Rules {
		rp := &l.plan.Rules[i]
		if was := from.predecessor(rp, &Config{Secret: l.secret}); was != nil {
			l.rules[i].mergeFrom(was)
		}
	}
	if l.filter != nil {
		l.filter.Merge(from.filter)
	}
	return nil
}
