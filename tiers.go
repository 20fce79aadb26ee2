package fastlimit

import (
	"cmp"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/fastlimit/fastlimit/bucket"
)

// Tier is another limit of a rule, which some of its clients have instead of the
// rule's. Whoever tells clients apart knows which: see [Rule.Tier].
type Tier struct {
	// Rate is the rate that a client may sustain. Zero means that of the rule.
	Rate Rate

	// Burst is what a client may take at once from rest. 0 means Rate.N or, if Rate is
	// zero too, the burst of the rule.
	Burst uint64

	// Clients is how many clients at most have this limit, for [NewPlan]: so many
	// buckets never have to be given up. 0 means that it is not known.
	Clients int
}

// MaxTiers is the most tiers of a rule. Clients with the same limit share one.
const MaxTiers = 1024

const (
	// tierBytes is what a tier takes beside its table: the rule, and what servers
	// prepare for its denials. A shared exact tier adds sharedBytes for operations in
	// flight (TestTierBytes).
	tierBytes   = 4 << 10
	sharedBytes = 12 << 10

	// minTierTable is the least table of a tier with many clients, or any number.
	minTierTable = 16 << 10

	// leastTierClients keeps the tables of a few clients from being made anew, empty,
	// with each client that is added.
	leastTierClients = 32
)

// Tier returns the rule of [RuleConfig.Tiers][i]: a rule by itself with the name,
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

// tierOf returns the configuration of a tier of the rule, without defaults.
func (c *RuleConfig) tierOf(t Tier) RuleConfig {
	own := *c
	own.Tiers, own.Strict, own.EscalateAt, own.MaxRate = nil, true, nil, Rate{}
	if t.Rate != (Rate{}) {
		own.Rate, own.Burst = t.Rate, 0
	}
	own.Burst = cmp.Or(t.Burst, own.Burst)
	return own
}

// addAll adds what another report says of fields whose names get a prefix.
func (r *report) addAll(prefix string, other *report) {
	for _, err := range other.errs {
		if e, ok := err.(*FieldError); ok { //nolint:errorlint // made by add
			e.Field = prefix + e.Field
		}
		r.errs = append(r.errs, err)
	}
}

// addTiers plans the rule's tiers, but for their tables, and reports what is wrong with
// them as fields of Tiers[i].
func (rp *RulePlan) addTiers(c *Config, bad *report) {
	rc := &rp.Config
	if n := len(rc.Tiers); n > MaxTiers {
		bad.add(rc.Name, "Tiers", fmt.Sprintf("want at most %d; clients with the same rate and burst share one", MaxTiers), "%d different limits", n)
		return
	}
	for i := range rc.Tiers {
		wrong := new(report)
		tc := rc.tierOf(rc.Tiers[i])
		if tc = tc.withDefaults(wrong); len(wrong.errs) == 0 {
			t := newRulePlan(tc, rp.slack, rp.nodes)
			t.shared, t.clients = rp.shared, rc.Tiers[i].Clients
			c.checkShared(&t, wrong)
			rp.Tiers = append(rp.Tiers, t)
		}
		bad.addAll(fmt.Sprintf("Tiers[%d].", i), wrong)
	}
}

// planTiers shares out what tiers may take, half of the memory less what the caller has
// reserved: to tiers with few clients by their number, to the others by what the traffic
// that rules are planned for needs.
func (p *Plan) planTiers(left int64, bad *report) {
	var open []*RulePlan
	for i := range p.Rules {
		left -= p.Rules[i].namedBytes()
		for k := range p.Rules[i].Tiers {
			t := &p.Rules[i].Tiers[k]
			if t.Bytes = tierBytes; t.shared {
				t.Bytes += sharedBytes
			}
			most := t.tableFor(t.clients)
			if t.clients == 0 || most > minTierTable {
				open = append(open, t)
				left -= minTierTable
			} else {
				t.setTable(most)
			}
			left -= t.Bytes
		}
	}
	if left < 0 {
		bad.add("", "Memory", fmt.Sprintf("raise it by %s, or have more clients share a rate and burst", sizeText((-2*left+1<<20-1)&^(1<<20-1))),
			"is too small for the other limits that clients of rules have, which may take half of it")
		return
	}
	for i, t := range open {
		share := left / int64(len(open)-i)
		most := t.openTable()
		if t.clients > 0 {
			most = min(most, t.tableFor(t.clients))
		}
		extra := min(share, max(0, most-minTierTable))
		left -= extra
		t.setTable(minTierTable + extra)
	}
	for i := range p.Rules {
		p.tierMemory += p.Rules[i].namedBytes()
		for k := range p.Rules[i].Tiers {
			p.tierMemory += p.Rules[i].Tiers[k].Bytes
		}
	}
}

// tableFor is the size of a table that is half full with so many clients, rounded up so
// that a few more do not change it.
func (rp *RulePlan) tableFor(clients int) int64 {
	n := uint64(max(clients, leastTierClients))
	n = 1 << bits.Len64(n-1)
	if n > 1<<31 {
		return 1 << 50
	}
	return withRounding(rp.shape.TableBytes(int(float64(n) / targetFill / 4)))
}

// withRounding adds what the allocator rounds up, which counts in small tables.
func withRounding(bytes int) int64 { return int64(bytes + min(bytes/8, 24<<10)) }

// openTable is the size of a table for the traffic that rules are planned for.
func (rp *RulePlan) openTable() int64 {
	return max(minTierTable, int64(min(targetRPS()*rp.tableBytes(), 1<<50)))
}

func (rp *RulePlan) setTable(bytes int64) {
	rp.sets = rp.shape.SetsIn(int(bytes - min(bytes/9, 24<<10)))
	rp.Buckets = rp.sets * 4
	rp.Overflow = bucket.OverflowChance(rp.sets, rp.Buckets/2)
	rp.RequestsPerSecond = min(targetRPS(), float64(bytes)/rp.tableBytes())
	rp.Bytes += withRounding(rp.shape.TableBytes(rp.sets))
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
		err := t.adoptBuckets(old, tp, c, &r.table)
		t.beginLines(old)
		r.limiter.handOver(old, t)
		return t, err
	}
	t.beginShape(tp)
	t.beginLines(nil)
	if err := t.table.InitBeside(&r.table, tp.shape, tp.sets); err != nil {
		return nil, err
	}
	if c.Store != nil {
		t.shared = newShared(t, c.Store, r.limiter.plan.timeout)
		t.shared.shut = r.shared.shut // a client has one limit, so one is enough
	}
	return t, nil
}

// tierLike returns the tier of r with the limit of this plan, or nil.
func (r *Rule) tierLike(tp *RulePlan) *Rule {
	if r == nil {
		return nil
	}
	limit := tp.Config.shape()
	for _, t := range r.tiers {
		if t.config.shape() == limit {
			return t
		}
	}
	return nil
}

func (r *Rule) plan() *RulePlan { return &r.limiter.plan.Rules[r.index] }

var _ [0]struct{} = [unsafe.Sizeof(Rule{}) / tierBytes]struct{}{} // tierBytes has room for one
