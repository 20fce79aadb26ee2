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

// keeps returns the rule that a rule of these settings goes on with, or nil: the one with the
// same clients. l may be nil.
func (l *Limiter) keeps(rp *limit.RulePlan, c *Config) *Rule {
	if l == nil || l.secret != c.Secret {
		return nil
	}
	r, ok := l.byName[rp.Config.Name]
	if !ok || !r.config.SameClients(&rp.Config) {
		return nil
	}
	return r
}

// adopt makes the rule one that goes on with old. What does not depend on the limit is the
// same; buckets and sketch are too if they can be, or else are made, empty, for handOver.
func (r *Rule) adopt(old *Rule, rp *limit.RulePlan, c *Config) (err error) {
	r.hasher, r.tag, r.others, r.counts = old.hasher, old.tag, old.others, old.counts
	if err = r.adoptBuckets(old, rp, c, nil); err != nil {
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

// adoptBuckets gives a rule, or a tier beside the table of a rule, the buckets of old if a
// state means the same by both limits, and else empty ones. Operations in flight stay with
// the buckets.
func (r *Rule) adoptBuckets(old *Rule, rp *limit.RulePlan, c *Config, beside *bucket.Table) (err error) {
	is, was := &r.buckets, &old.buckets
	stays := rp.Shape == was.Shape && rp.Config.CountDenied == old.config.CountDenied
	r.beginShape(rp)
	switch {
	case was.Table.Buckets() == rp.Sets*4 && is.Shape.SharesStates(&was.Shape):
		is.Table = was.Table.At(rp.Shape)
	case beside != nil:
		stays, err = false, is.Table.InitBeside(beside, rp.Shape, rp.Sets)
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
		if beside != nil {
			r.shared.ShareDenials(r.base.shared)
		}
	}
	return err
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
		if was := from.keeps(rp, &Config{Secret: l.secret}); was != nil {
			l.rules[i].merge(was)
		}
	}
	if l.filter != nil {
		l.filter.Merge(from.filter)
	}
	return nil
}

// merge raises the buckets, cells and bans of r to those of from.
func (r *Rule) merge(from *Rule) {
	if r.buckets.Shape.Takes(&from.buckets.Shape) {
		r.mergeBuckets(from)
		r.mergeCells(from)
		for i, t := range r.tiers {
			if was := from.tierLike(&r.plan().Tiers[i]); was != nil {
				t.mergeBuckets(was)
			}
		}
	}
	if r.bans != nil && from.keepsBans(r) {
		r.bans.Adopt(from.bans, &r.config.Ban, from.time(), r.time())
	}
}

// mergeBuckets dates what from knows so that levels come out lower, if anything: our time is
// read first, and what is left of a µs is over.
func (r *Rule) mergeBuckets(from *Rule) {
	r.doubtAudit()
	defer r.doubtAudit()
	now := r.time()
	r.buckets.Table.Merge(&from.buckets.Table, r.carry(from, from.time()+time.Microsecond, now))
	if r.shared != nil {
		r.shared.Distrust(r.time()) // the store may have forgotten
	}
}

// mergeCells dates it the other way round.
func (r *Rule) mergeCells(from *Rule) {
	if r.sketch == nil {
		return
	}
	was := from.time()
	now := r.time() + time.Microsecond
	c := r.carry(from, was, now)
	switch {
	case r.buckets.Logged: // its periods begin at other times
		r.cells.Fill(r.buckets.SketchTicks(now), r.threshold)
	case from.sketch == nil:
		r.cells.Fill(r.buckets.SketchTicks(now), max(r.threshold, r.buckets.Table.Highest(c.Now)))
	default:
		r.cells.Merge(&from.cells, from.buckets.SketchTicks(was), r.buckets.SketchTicks(now), c.LevelUp)
	}
}
