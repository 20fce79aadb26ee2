package fastlimit

import (
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/window"
)

// Limiter is a set of rules that share memory. It starts no goroutines and is
// safe for concurrent use. The zero value is not usable: call [New].
type Limiter struct {
	clock  clock
	filter *window.Filter // &own, nil if no rule uses it
	own    window.Filter
	rules  []*Rule
	byName map[string]*Rule
	plan   Plan
	turn   atomic.Uint32 // calls of Advance
	stored bool          // exact buckets are in a store
}

// New checks the configuration and takes all the memory of the local tier. Its
// error joins everything that is wrong.
func New(c Config) (*Limiter, error) {
	plan, err := NewPlan(c)
	if err != nil {
		return nil, err
	}
	if c.Shared && c.Store == nil {
		return nil, &FieldError{Package: "fastlimit", Field: "Store", Problem: "is nil although Shared is set", Fix: "open the store first"}
	}
	if c.Secret == (sketch.Secret{}) {
		rand.Read(c.Secret[:]) // never fails
	}
	l, err := newLimiter(plan, c.Secret)
	if err != nil {
		return nil, err
	}
	if c.Store != nil {
		for _, r := range l.rules {
			r.shared, r.stored = newShared(r, c.Store, plan.timeout), true
		}
		l.stored = true
	}
	return l, nil
}

func newLimiter(plan *Plan, secret sketch.Secret) (*Limiter, error) {
	l := &Limiter{byName: make(map[string]*Rule, len(plan.Rules)), plan: *plan}
	l.clock.init(plan.Rules)
	if plan.Window > 0 {
		l.filter = &l.own
		if err := l.filter.Init(plan.Window, plan.filterWords, l.now()); err != nil {
			return nil, err
		}
	}
	for i := range plan.Rules {
		r, err := newRule(l, &plan.Rules[i], secret)
		if err != nil {
			return nil, err
		}
		r.index = i
		l.rules = append(l.rules, r)
		l.byName[r.config.Name] = r
	}
	return l, nil
}

// Rule returns the rule of that name. Resolve it once, not per request.
func (l *Limiter) Rule(name string) (*Rule, bool) {
	r, ok := l.byName[name]
	return r, ok
}

// Rules returns all rules in the order of the configuration.
func (l *Limiter) Rules() []*Rule { return append([]*Rule(nil), l.rules...) }

// Limiter returns the limiter that the rule is one of.
func (r *Rule) Limiter() *Limiter { return r.limiter }

// Plan returns how the memory is shared out.
func (l *Limiter) Plan() Plan { return l.plan }

// Now reads the limiter's clock: monotonic time, from an arbitrary start. It
// is the clock of all calls without a time argument.
func (l *Limiter) Now() time.Duration { return l.clock.read() }

// LastTime is the latest time that may be brought ([Rule.TakeAt]): beyond it a
// rule could not count time exactly. It is between four years, for a rate such
// as 65,533/s, and the 292 years of a [time.Duration], for most. The limiter's
// own clock ends there, too: then requests panic.
func (l *Limiter) LastTime() time.Duration { return l.clock.end }

// Advance does the work that is due at now, so that no request has to. Call it
// every second or so; a limiter without it works the same.
func (l *Limiter) Advance(now time.Duration) {
	now = l.clock.settle(now)
	if l.filter != nil {
		l.filter.Advance(now)
	}
	const parts = 8 // each table is swept once in so many calls
	part := int(l.turn.Add(1) % parts)
	for _, r := range l.rules {
		r.table.Sweep(r.shape.Ticks(now), part, parts)
	}
}

func newRule(l *Limiter, rp *RulePlan, secret sketch.Secret) (*Rule, error) {
	r := &Rule{limiter: l, config: rp.Config, shape: rp.shape, cost: rp.Config.Cost, enforced: rp.Config.Mode == Enforce, epoch: rp.epoch()}
	var err error
	if r.hasher, err = sketch.NewHasher(secret, rp.Config.Name); err != nil {
		return nil, err
	}
	r.setPrefixes()
	r.setTag()
	if rp.Filter {
		r.filter = l.filter
	}
	if rp.hasSketch() {
		r.threshold = uint64(*rp.Config.EscalateAt * float64(rp.shape.Burst()*rp.shape.Unit()))
		r.sketch = &r.cells
		if err = r.sketch.Init(max(1, rp.blocks), r.sketchLimit(rp)); err != nil {
			return nil, err
		}
	}
	if rp.TopTalkers > 0 {
		if r.talkers, err = sketch.NewTopTalkers(rp.TopTalkers); err != nil {
			return nil, err
		}
	}
	if err = r.table.Init(rp.shape, rp.sets); err != nil {
		return nil, err
	}
	r.counts = newCounters()
	return r, nil
}
