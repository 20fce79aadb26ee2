package engine

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/fastlimit/fastlimit/limit"
)

// Tier is fastlimit.Rule.Tier.
func (r *Rule) Tier(i int) *Rule { return r.tiers[i] }

// owner returns the rule that r is a tier of, or r.
func (r *Rule) owner() *Rule {
	if r.base != nil {
		return r.base
	}
	return r
}

// setTiers makes the rule's tiers. They take over the state of the tiers of old with the same limit, if any.
func (r *Rule) setTiers(rp *limit.RulePlan, c *Config, old *Rule) error {
	for i := range rp.Tiers {
		t, err := r.newTier(i, &rp.Tiers[i], c, old.tierLike(&rp.Tiers[i]))
		if err != nil {
			return err
		}
		r.tiers = append(r.tiers, t)
	}
	return nil
}

func (r *Rule) newTier(i int, tp *limit.RulePlan, c *Config, old *Rule) (*Rule, error) {
	t := &Rule{common: r.common, tier: i + 1, base: r, config: tp.Config}
	t.beginChain()
	if old != nil {
		err := t.shareBuckets(old, tp, c, &r.buckets.Table)
		t.beginQueues(old)
		r.limiter.addTransfer(old, t)
		return t, err
	}
	t.beginShape(tp)
	t.beginQueues(nil)
	if err := t.buckets.Table.InitBeside(&r.buckets.Table, tp.Shape, tp.Sets); err != nil {
		return nil, err
	}
	if c.Store != nil {
		t.beginShared(c)
		t.shared.ShareDenials(r.shared)
	}
	return t, nil
}

// tierLike returns the tier of r with the limit of this plan, or nil.
func (r *Rule) tierLike(tp *limit.RulePlan) *Rule {
	if r == nil {
		return nil
	}
	shape := tp.Config.Shape()
	for _, t := range r.tiers {
		if t.config.Shape() == shape {
			return t
		}
	}
	return nil
}

func (r *Rule) plan() *limit.RulePlan { return &r.limiter.plan.Rules[r.index] }

var _ [0]struct{} = [unsafe.Sizeof(Rule{}) / limit.TierBytes]struct{}{} // whose size plans assume

// liveTiers are the tiers from NewTier.
type liveTiers struct {
	tiers atomic.Pointer[[]*Rule] // immutable; nil: none
	mu    sync.Mutex              // held while they are replaced
}

func (l *liveTiers) load() []*Rule {
	if p := l.tiers.Load(); p != nil {
		return *p
	}
	return nil
}

func (r *Rule) newLiveTier(t limit.Tier, old *Rule) (*Rule, error) {
	tp, err := r.planLiveTier(t)
	if err != nil {
		return nil, err
	}
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	now := r.live.load()
	i := len(r.tiers)
	for slices.ContainsFunc(now, func(t *Rule) bool { return t.tier-1 == i }) {
		i++
	}
	if i >= limit.MaxTiers {
		return nil, &limit.FieldError{Package: "fastlimit", Rule: r.config.Name, Field: "Tiers[0]", Problem: fmt.Sprintf("the rule has %d other limits", i), Fix: "have more clients share a rate and burst"}
	}
	end, windows := endOf([]limit.RulePlan{*tp})
	if at := r.buckets.Clock.Elapsed(); at > end.At {
		return nil, &limit.FieldError{Package: "fastlimit", Rule: r.config.Name, Field: "Tiers[0].Rate", Problem: fmt.Sprintf("this process has run for %v, which is longer than %s", at, end.Rule), Fix: "write fewer digits, or restart"}
	}
	r.buckets.Clock.EndBy(end, windows)
	c := r.storeConfig()
	tier, err := r.newTier(i, tp, &c, old)
	if err != nil {
		return nil, err
	}
	next := append(slices.Clone(now), tier)
	r.live.tiers.Store(&next)
	return tier, nil
}

func (l *liveTiers) drop(t *Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(l.load()), func(o *Rule) bool { return o == t })
	l.tiers.Store(&next)
}

// planLiveTier plans a tier as a configuration would, except for its memory.
func (r *Rule) planLiveTier(t limit.Tier) (*limit.RulePlan, error) {
	t.Clients = min(cmp.Or(max(t.Clients, 0), limit.MaxLiveTierClients), limit.MaxLiveTierClients)
	plans, err := r.plan().PlanTiers([]limit.Tier{t})
	if err != nil {
		return nil, err
	}
	return &plans[0], nil
}

// storeConfig is a configuration with only the rule's store.
func (r *Rule) storeConfig() (c Config) {
	if r.shared != nil {
		c.Store = r.shared.Store()
	}
	return c
}

// named are the limits of a rule with a MaxRate, one for each rate that was named lately. All use the rule's
// table and its names in a shared store, so one can be dropped at any time: clients and requests in flight
// lose nothing.
type named struct {
	limits atomic.Pointer[[]namedLimit] // immutable once stored; requests only read it

	mu   sync.Mutex // guards making limits
	next int        // the slot that the next one takes
}

type namedLimit struct {
	rate limit.Rate
	rule *Rule
}

// AtRate is fastlimit.Rule.AtRate.
func (r *Rule) AtRate(rate limit.Rate) *Rule {
	if r.named == nil {
		panic("BUG: fastlimit: AtRate of a rule without MaxRate")
	}
	if rate = r.config.Bounded(rate); rate == r.config.Rate {
		return r
	}
	if limit := r.named.find(rate); limit != nil {
		return limit
	}
	return r.named.make(r, rate)
}

func (n *named) find(rate limit.Rate) *Rule {
	if all := n.limits.Load(); all != nil {
		for i := range *all {
			if l := &(*all)[i]; l.rate == rate {
				return l.rule
			}
		}
	}
	return nil
}

// make makes the limit for a rate within bounds, unless another request already has.
func (n *named) make(r *Rule, rate limit.Rate) *Rule {
	n.mu.Lock()
	defer n.mu.Unlock()
	if limit := n.find(rate); limit != nil {
		return limit
	}
	var all []namedLimit
	if old := n.limits.Load(); old != nil {
		all = slices.Clone(*old)
	}
	place := n.next % limit.MaxNamedRates
	n.next++
	l := namedLimit{rate, r.newNamed(rate, place)}
	if place == len(all) {
		all = append(all, l)
	} else {
		all[place] = l
	}
	n.limits.Store(&all)
	return l.rule
}

func (r *Rule) newNamed(rate limit.Rate, place int) *Rule {
	burst := max(r.cost, min(rate.N, r.config.MaxRate.N))
	t := &Rule{
		common: r.common, base: r, rateSlot: place + 1, config: r.config, buckets: r.buckets,
		queues: r.queues, // as there is one bucket for all rates
	}
	shape := r.buckets.Shape.At(rate.N, rate.Per, burst)
	t.config.Rate, t.config.Burst, t.config.Tiers = rate, shape.Burst(), nil
	t.buckets.Shape = shape.WithSlack(r.limiter.plan.StoreTimeout)
	t.buckets.Table = r.buckets.Table.At(t.buckets.Shape)
	if r.shared != nil {
		t.shared = r.shared.WithBuckets(t.buckets)
		t.shared.Distrust(t.buckets.Clock.Now()) // it may have been dropped while the store was away
	}
	return t
}
