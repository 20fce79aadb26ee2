package engine

import (
	"crypto/rand"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/internal/clock"
	"github.com/fastlimit/fastlimit/internal/exact"
	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/internal/queue"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/window"
)

// Limiter is a set of rules that share memory. It starts no goroutines and is
// safe for concurrent use. The zero value is not usable: call [New].
type Limiter struct {
	clock  *clock.Clock
	manual *ManualClock // the owner of the clock, or nil
	secret sketch.Secret
	filter *window.Filter // nil if no rule uses it
	rules  []*Rule
	byName map[string]*Rule
	plan   limit.Plan
	sweeps atomic.Uint32 // calls of Advance

	bans           bool // some rule bans
	onBan, onUnban func(Ban)

	transfers []transfer // set only while it is made

	waiters    *queue.Waiters // shared with predecessors and successors (With)
	waitLimits limit.WaitLimits
}

// New is fastlimit.New.
func New(c Config) (*Limiter, error) {
	plan, err := c.Plan()
	if err != nil {
		return nil, err
	}
	if c.Shared && c.Store == nil {
		return nil, &limit.FieldError{Package: "fastlimit", Field: "Store", Problem: "is nil although Shared is set", Fix: "open the store first"}
	}
	if c.Secret == (sketch.Secret{}) {
		rand.Read(c.Secret[:]) // never fails
	}
	return newLimiter(plan, &c, nil)
}

// newLimiter makes a limiter from checked settings. Its rules take over the state of those of old, if old is
// not nil.
func newLimiter(plan *limit.Plan, c *Config, old *Limiter) (*Limiter, error) {
	if c.Clock != nil && c.Store != nil {
		return nil, &limit.FieldError{Package: "fastlimit", Field: "Clock", Problem: "set together with Store, for which requests wait by the machine's clock", Fix: "leave it nil"}
	}
	l := &Limiter{byName: make(map[string]*Rule, len(plan.Rules)), plan: *plan, secret: c.Secret, manual: c.Clock, onBan: c.OnBan, onUnban: c.OnUnban}
	l.beginWaiting(c, old)
	// Every request reads both, so they are adjacent.
	core := new(struct {
		clock  clock.Clock
		filter window.Filter
	})
	switch {
	case old != nil:
		l.clock = old.clock
	case c.Clock != nil:
		l.clock = &c.Clock.clock
	default:
		l.clock = &core.clock
		l.clock.StartMachine()
	}
	end, windows := endOf(plan.Rules)
	now := l.clock.Elapsed()
	if now > end.At {
		return nil, &limit.FieldError{Package: "fastlimit", Field: "Clock", Problem: fmt.Sprintf("at %v, which is longer than %s", now, end.Rule), Fix: "set it to the time since a recent start, not since 1970"}
	}
	l.clock.EndBy(end, windows)
	if err := l.setFilter(old, &core.filter, now); err != nil {
		return nil, err
	}
	l.clock.StartWall(c.Store != nil)
	if wall := l.clock.WallAt(now); l.clock.PastWindows(wall) {
		return nil, &limit.FieldError{Package: "fastlimit", Field: "Clock", Problem: fmt.Sprintf("the wall time is 1970 and %v, which is longer than %s", wall, windows.Rule), Fix: "set the machine's clock, or give the rule a period of 2.2 s or more"}
	}
	l.rules = make([]*Rule, 0, len(plan.Rules))
	for i := range plan.Rules {
		r, err := newRule(l, i, c, old.predecessor(&plan.Rules[i], c))
		if err != nil {
			return nil, err
		}
		l.rules = append(l.rules, r)
		l.byName[r.config.Name] = r
		l.bans = l.bans || r.bans != nil
	}
	l.transferAll() // nothing of old changes before all is well
	return l, nil
}

// endOf returns the last time on the limiter's line that all rules can count, and the last wall time of rules
// that count in windows.
func endOf(rules []limit.RulePlan) (line, wall *clock.End) {
	line, wall = &clock.End{At: math.MaxInt64, Rule: "any time"}, &clock.End{At: math.MaxInt64}
	consider := func(all []limit.RulePlan) {
		for i := range all {
			rp, end := &all[i], line
			if rp.Shape.Windowed() {
				end = wall
			}
			if at := rp.Shape.LastTime(); at < end.At {
				*end = clock.End{At: at, Rule: fmt.Sprintf("rule %q can count at %v", rp.Config.Name, rp.Config.Rate)}
			}
		}
	}
	for i := range rules {
		consider(rules[i : i+1])
		consider(rules[i].Tiers)
	}
	return line, wall
}

// Rule is fastlimit.Limiter.Rule.
func (l *Limiter) Rule(name string) (*Rule, bool) {
	r, ok := l.byName[name]
	return r, ok
}

// Rules returns the limiter's rules, which must not be modified: fastlimit.Limiter.Rules copies them.
func (l *Limiter) Rules() []*Rule { return l.rules }

// Plan is fastlimit.Limiter.Plan.
func (l *Limiter) Plan() limit.Plan { return l.plan }

// Now is fastlimit.Limiter.Now.
func (l *Limiter) Now() time.Duration {
	l.checkMade()
	return l.clock.Now()
}

// LastTime is fastlimit.Limiter.LastTime.
func (l *Limiter) LastTime() time.Duration { return l.clock.LastTime() }

// Advance is fastlimit.Limiter.Advance.
func (l *Limiter) Advance() {
	l.checkMade()
	now := l.clock.Late(l.clock.Now())
	if l.filter != nil {
		l.filter.Advance(now)
	}
	const parts = 8 // each table is swept once in so many calls
	part := int(l.sweeps.Add(1) % parts)
	for _, r := range l.rules {
		r.buckets.Table.Sweep(r.buckets.Ticks(now), part, parts)
		if r.bans != nil {
			r.bans.Sweep(&r.config.Ban, now, part, parts)
		}
		for _, t := range r.tiers {
			t.buckets.Table.Sweep(t.buckets.Ticks(now), part, parts)
		}
		for _, t := range r.live.load() {
			t.buckets.Table.Sweep(t.buckets.Ticks(now), part, parts)
		}
	}
}

func (l *Limiter) checkMade() {
	if l.clock == nil {
		panic("BUG: fastlimit: the Limiter was not made by New")
	}
}

// newRule makes rule i. It takes over the state of old, or starts empty if old is nil.
func newRule(l *Limiter, i int, c *Config, old *Rule) (*Rule, error) {
	rp := &l.plan.Rules[i]
	r := &Rule{config: rp.Config, common: common{
		limiter: l, index: i, enforced: rp.Config.Mode == limit.Enforce, cost: rp.Config.Cost, scale: uint32(rp.Config.CostScale()),
		epoch: max(rp.DrainTime(), minEpoch), prefixes: keytext.Prefixes{Bits4: uint8(rp.Config.IPv4Prefix), Bits6: uint8(rp.Config.IPv6Prefix)},
	}}
	r.beginChain()
	r.setPrefixes()
	if rp.Filter {
		r.filter = l.filter
	}
	if rp.HasSketch() {
		r.threshold, r.sketch = rp.Threshold(), &r.cells
	}
	var err error
	if old != nil {
		err = r.shareState(old, rp, c)
	} else {
		err = r.begin(rp, c)
	}
	if err != nil {
		return nil, err
	}
	r.beginAudit(old)
	r.beginQueues(old)
	r.setBans(rp, old)
	l.addTransfer(old, r)
	if r.config.MaxRate != (limit.Rate{}) {
		r.named = new(named)
	}
	return r, r.setTiers(rp, c, old)
}

// begin gives the rule state of its own.
func (r *Rule) begin(rp *limit.RulePlan, c *Config) (err error) {
	if r.hasher, err = sketch.NewHasher(c.Secret, rp.Config.Name); err != nil {
		return err
	}
	r.setTag()
	r.counts = new(counters)
	r.beginShape(rp)
	if err = r.buckets.Table.Init(rp.Shape, rp.Sets); err != nil {
		return err
	}
	if r.sketch != nil {
		if err = r.sketch.Init(max(1, rp.Blocks), rp.SketchLimit()); err != nil {
			return err
		}
	}
	if c.Store != nil {
		r.beginShared(c)
	}
	return r.beginTalkers(rp)
}

// beginShape sets the limit of the rule's buckets.
func (r *Rule) beginShape(rp *limit.RulePlan) {
	r.buckets.SetLimit(r.limiter.clock, rp.Shape, rp.Config.CountDenied)
}

// beginShared moves the rule's buckets to the store.
func (r *Rule) beginShared(c *Config) {
	r.shared = exact.NewShared(r.buckets, r.config.Name, c.Store, r.limiter.plan.StoreTimeout)
}

func (r *Rule) beginTalkers(rp *limit.RulePlan) (err error) {
	if rp.TopTalkers > 0 {
		r.talkers, err = sketch.NewTopTalkers(rp.TopTalkers)
	}
	return err
}
