package limit

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/bytesize"
)

// Tier is another limit of a rule, for clients that have it instead of the rule's. The
// caller knows which clients these are; see fastlimit.Rule.Tier.
type Tier struct {
	// Rate is the rate that a client may sustain. Zero means the rate of the rule.
	Rate Rate

	// Burst is the number of units that a client may take at once from rest. 0 means Rate.N
	// or, if Rate is zero too, the burst of the rule.
	Burst uint64

	// Clients is the maximum number of clients with this limit, for [NewPlan]: that many
	// buckets never have to be evicted. 0 means that it is not known.
	Clients int
}

// MaxTiers is the maximum number of tiers of a rule. Clients with the same limit share one.
const MaxTiers = 1024

// MaxLiveTierClients bounds Clients of a tier that is made while its rule is in use. For
// such a tier 0 means this number.
const MaxLiveTierClients = 16 << 10

const (
	// TierBytes is the memory of a tier without its table: the rule, and what servers
	// prepare for its denials.
	TierBytes = 4 << 10

	// SharedTierBytes is added for operations in flight with a shared exact tier.
	SharedTierBytes = 12 << 10

	// minTierTable is the smallest table of a tier with many clients, or with any number.
	minTierTable = 16 << 10

	// leastTierClients keeps the tables of a few clients from being replaced by new, empty
	// ones with each client that is added.
	leastTierClients = 32
)

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

// addTiers plans the rule's tiers, except for their tables, and reports what is wrong with
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

// PlanTiers plans other limits of a rule that is in use, as if they were the Tiers of its
// configuration, each with a table for its number of Clients. Their Bytes are not part of
// the rule's.
func (rp *RulePlan) PlanTiers(tiers []Tier) ([]RulePlan, error) {
	with, bad := *rp, new(report)
	with.Config.Tiers, with.Tiers = tiers, nil
	if with.addTiers(&Config{Shared: rp.shared}, bad); len(bad.errs) > 0 {
		return nil, errors.Join(bad.errs...)
	}
	for i := range with.Tiers {
		t := &with.Tiers[i]
		t.Bytes = t.fixedBytes()
		t.setTable(t.tableFor(t.clients))
	}
	return with.Tiers, nil
}

// fixedBytes returns the memory of a tier without its table.
func (rp *RulePlan) fixedBytes() int64 {
	if rp.shared {
		return TierBytes + SharedTierBytes
	}
	return TierBytes
}

// planTiers shares out the memory that tiers may take, half of the total minus what the
// caller has reserved. Tiers with few clients get it by their number, the others by what
// the traffic that rules are planned for needs.
func (p *Plan) planTiers(left int64, bad *report) {
	var open []*RulePlan
	for i := range p.Rules {
		left -= p.Rules[i].namedBytes()
		for k := range p.Rules[i].Tiers {
			t := &p.Rules[i].Tiers[k]
			t.Bytes = t.fixedBytes()
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
		bad.add("", "Memory", fmt.Sprintf("raise it by %s, or have more clients share a rate and burst", bytesize.Text((-2*left+1<<20-1)&^(1<<20-1))),
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

// tableFor returns the size of a table that is half full with that many clients, rounded up
// so that a few more do not change it.
func (rp *RulePlan) tableFor(clients int) int64 {
	n := uint64(max(clients, leastTierClients))
	n = 1 << bits.Len64(n-1)
	if n > 1<<31 {
		return 1 << 50
	}
	return withRounding(rp.Shape.TableBytes(int(float64(n) / targetFill / 4)))
}

// withRounding adds what the allocator rounds up, which matters in small tables.
func withRounding(bytes int) int64 { return int64(bytes + min(bytes/8, 24<<10)) }

// openTable returns the size of a table for the traffic that rules are planned for.
func (rp *RulePlan) openTable() int64 {
	return max(minTierTable, int64(min(targetRPS()*rp.tableBytes(), 1<<50)))
}

// setTable gives a tier a table of that many bytes.
func (rp *RulePlan) setTable(bytes int64) {
	rp.Sets = rp.Shape.SetsIn(int(bytes - min(bytes/9, 24<<10)))
	rp.Buckets = rp.Sets * 4
	rp.Overflow = bucket.OverflowChance(rp.Sets, rp.Buckets/2)
	rp.RequestsPerSecond = min(targetRPS(), float64(bytes)/rp.tableBytes())
	rp.Bytes += withRounding(rp.Shape.TableBytes(rp.Sets))
}
