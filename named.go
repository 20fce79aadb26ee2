package fastlimit

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/limit"
)

// named are the limits of a rule with a MaxRate, one for each rate that was named lately.
// All have the rule's table, and name buckets in a shared store as the rule does, so one
// can be dropped at any time: clients and requests in flight lose nothing.
type named struct {
	limits atomic.Pointer[[]namedLimit] // immutable once stored; requests only read it

	mu   sync.Mutex // guards making limits
	next int        // whose place the next one takes
}

type namedLimit struct {
	rate Rate
	rule *Rule
}

// AtRate returns the rule at another rate, which somebody has named for a client, such as
// a proxy that knows the client's plan: to be charged for a request of that client
// instead of r. It is a rule by itself with the name, index, mode, cost, counters and keys of r.
//
// The rate is at most [RuleConfig].MaxRate, and at least 1/d and Cost in 12 days. The burst is N of the rate, at most that
// of MaxRate and at least Cost; it leaks in 12 days at most. The rule's own
// rate is r itself.
//
// Whatever rates are named for a client, there is one bucket: each unit keeps it busy
// for 1/r of the rate that it was charged by. So a client whose rate alternates is never
// admitted more than by the best of them, and one whose rate is raised has to wait until
// what it has taken by the lower rate has leaked at that.
//
// It panics on a rule without MaxRate. It allocates only for a rate that was not named
// lately, and takes no lock otherwise.
func (r *Rule) AtRate(rate Rate) *Rule {
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

func (n *named) find(rate Rate) *Rule {
	if all := n.limits.Load(); all != nil {
		for i := range *all {
			if l := &(*all)[i]; l.rate == rate {
				return l.rule
			}
		}
	}
	return nil
}

// make makes the limit for a rate that is within bounds, unless another request has.
func (n *named) make(r *Rule, rate Rate) *Rule {
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

func (r *Rule) newNamed(rate Rate, place int) *Rule {
	burst := max(r.cost, min(rate.N, r.config.MaxRate.N))
	t := &Rule{
		limiter: r.limiter, enforced: r.enforced, mask4: r.mask4, mask6hi: r.mask6hi, mask6lo: r.mask6lo,
		hasher: r.hasher, tag: r.tag, others: r.others, counts: r.counts, talkers: r.talkers, bans: r.bans, direct: r.direct,
		index: r.index, base: r, slot: place + 1, cost: r.cost, scale: r.scale, config: r.config, epoch: r.epoch, namer: r.namer, buckets: r.buckets,
		lines: r.lines, // as there is one bucket for all rates
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
