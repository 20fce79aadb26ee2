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

// TierIndex is i of [Rule.Tier], -1 of a rule that is none.
func (r *Rule) TierIndex() int { return r.tier - 1 }

// Base returns the rule that r is a tier of, or r.
func (r *Rule) Base() *Rule {
	if r.base != nil {
		return r.base
	}
	return r
}

// Unlimited counts, at stage list, that a request was admitted without being charged,
// because its client has no limit by this rule, and returns that decision. It takes
// nothing from anybody.
func (r *Rule) Unlimited() Decision {
	r.checkMade()
	r.counts.record(stackStripe(), StageList, true)
	return admitUnchecked(StageList)
}

// setTiers makes the rule's tiers, which take over the state of those of old with the
// same limit, if there are any.
func (r *Rule) setTiers(rp *RulePlan, c *Config, old *Rule) error {
	for i := range rp.Tiers {
		t, err := r.newTier(i, &rp.Tiers[i], c, old.tierLike(&rp.Tiers[i]))
		if err != nil {
			return err
		}
		r.tiers = append(r.tiers, t)
	}
	return nil
}

func (r *Rule) newTier(i int, tp *RulePlan, c *Config, old *Rule) (*Rule, error) {
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
func (r *Rule) tierLike(tp *RulePlan) *Rule {
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

func (r *Rule) plan() *RulePlan { return &r.limiter.plan.Rules[r.index] }

var _ [0]struct{} = [unsafe.Sizeof(Rule{}) / limit.TierBytes]struct{}{} // which has room for one

// MaxLiveTierClients bounds [Tier].Clients of a tier that [Rule.NewTier] makes, and what
// 0 means there.
const MaxLiveTierClients = 16 << 10

// liveTiers are those of [Rule.NewTier].
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

// LiveTierBytes is how much memory [Rule.NewTier] takes for a tier: the same on every
// call. The error is that of NewTier, but for their number.
func (r *Rule) LiveTierBytes(t Tier) (int64, error) {
	tp, err := r.planLiveTier(t)
	if err != nil {
		return 0, err
	}
	return tp.Bytes, nil
}

// NewTier makes a tier while the rule is in use, beside those of the configuration, with
// buckets of its own, all of them empty. Nothing that exists changes: neither the state of
// others nor the plan. Its memory is beside [Config.Memory]: see LiveTierBytes; call
// [Rule.DropTier] when no request will be charged to it any more. Its TierIndex is not that
// of another tier in use. A rule has at most [MaxTiers], those of its configuration
// included. [Limiter.With] does not go on with it. The error joins everything that is
// wrong with the limit, each a [FieldError] named Tiers[0].Rate or the like.
func (r *Rule) NewTier(t Tier) (*Rule, error) {
	r.checkMade()
	return r.newLiveTier(t, nil)
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
	for slices.ContainsFunc(now, func(t *Rule) bool { return t.TierIndex() == i }) {
		i++
	}
	if i >= MaxTiers {
		return nil, &FieldError{Package: "fastlimit", Rule: r.config.Name, Field: "Tiers[0]", Problem: fmt.Sprintf("the rule has %d other limits", i), Fix: "have more clients share a rate and burst"}
	}
	end, windows := endOf([]RulePlan{*tp})
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

// ContinueTier makes a tier as NewTier does, that goes on with the buckets of a live tier of the
// rule before ([Limiter.With]). Where this rule does not go on with that one its buckets are empty.
// Unlike NewTier it is for one goroutine, before the rule is used.
func (r *Rule) ContinueTier(old *Rule, t Tier) (*Rule, error) {
	r.checkMade()
	if old.base == nil || !r.Continues(old.base) {
		return r.NewTier(t)
	}
	next, err := r.newLiveTier(t, old)
	r.limiter.takeOver()
	return next, err
}

// DropTier lets go of a tier of [Rule.NewTier]: requests that still have it finish with
// it, and its index may be another's.
func (r *Rule) DropTier(t *Rule) {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(r.live.load()), func(o *Rule) bool { return o == t })
	r.live.tiers.Store(&next)
}

// planLiveTier plans a tier as a configuration with it would, but for its memory.
func (r *Rule) planLiveTier(t Tier) (*RulePlan, error) {
	t.Clients = min(cmp.Or(max(t.Clients, 0), MaxLiveTierClients), MaxLiveTierClients)
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
