package fastlimit

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/fastlimit/fastlimit/limit"
)

// Tier returns the rule of [RuleConfig].Tiers[i]: a rule by itself with the name,
// index, mode and counters of r, and with exact buckets of its own. There is neither
// filter nor sketch before them, so it admits no more than its own burst and rate. It
// takes the keys of r. A request of a client that has this limit is charged to the
// tier and not to r.
func (r *Rule) Tier(i int) *Rule { return r.tiers[i] }

// owner returns the rule that r is a tier of, or r.
func (r *Rule) owner() *Rule {
	if r.base != nil {
		return r.base
	}
	return r
}

// setTiers makes the rule's tiers, which take over the state of those of old with the
// same limit, if there are any.
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
	t := &Rule{
		limiter: r.limiter, enforced: r.enforced, mask4: r.mask4, mask6hi: r.mask6hi, mask6lo: r.mask6lo,
		hasher: r.hasher, tag: r.tag, others: r.others, counts: r.counts, talkers: r.talkers, bans: r.bans,
		index: r.index, tier: i + 1, base: r, cost: r.cost, scale: r.scale, config: tp.Config, epoch: r.epoch, namer: r.namer,
	}
	t.direct = r.direct
	t.beginChain()
	if old != nil {
		err := t.adoptBuckets(old, tp, c, &r.buckets.Table)
		t.beginLines(old)
		r.limiter.handOver(old, t)
		return t, err
	}
	t.beginShape(tp)
	t.beginLines(nil)
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

var _ [0]struct{} = [unsafe.Sizeof(Rule{}) / limit.TierBytes]struct{}{} // which has room for one

// liveTiers are those of NewTier.
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

func (r *Rule) newLiveTier(t Tier, old *Rule) (*Rule, error) {
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
		return nil, &FieldError{Package: "fastlimit", Rule: r.config.Name, Field: "Tiers[0]", Problem: fmt.Sprintf("the rule has %d other limits", i), Fix: "have more clients share a rate and burst"}
	}
	end, windows := endOf([]limit.RulePlan{*tp})
	if at := r.buckets.Clock.Elapsed(); at > end.At {
		return nil, &FieldError{Package: "fastlimit", Rule: r.config.Name, Field: "Tiers[0].Rate", Problem: fmt.Sprintf("this process has run for %v, which is longer than %s", at, end.Rule), Fix: "write fewer digits, or restart"}
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

// planLiveTier plans a tier as a configuration with it would, but for its memory.
func (r *Rule) planLiveTier(t Tier) (*limit.RulePlan, error) {
	t.Clients = min(cmp.Or(max(t.Clients, 0), limit.MaxLiveTierClients), limit.MaxLiveTierClients)
	plans, err := r.plan().PlanTiers([]Tier{t})
	if err != nil {
		return nil, err
	}
	return &plans[0], nil
}

// storeConfig is a configuration with the store of the rule and nothing else.
func (r *Rule) storeConfig() (c Config) {
	if r.shared != nil {
		c.Store = r.shared.Store()
	}
	return c
}
