package engine

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/judge"
	"github.com/fastlimit/fastlimit/limit"
	"pgregory.net/rapid"
)

// A live tier is the exact bucket of its own limit, and neither making nor dropping one
// changes anything for others.
func TestNewTier(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := &ManualClock{}
		lim, err := New(Config{Clock: clock, Memory: 4 * limit.MinMemory, Rules: []limit.RuleConfig{withTiers(strictRule("a", 5, time.Second, 7), limit.Tier{Burst: 3})}})
		if err != nil {
			t.Fatal(err)
		}
		base := lim.Rules()[0]
		plan := lim.Plan()
		limit := limit.Tier{Rate: limit.Rate{N: rapid.Uint64Range(1, 40).Draw(t, "n"), Per: time.Second}, Burst: rapid.Uint64Range(1, 60).Draw(t, "burst"), Clients: 1}
		tier, err := base.NewTier(limit)
		if err != nil {
			t.Fatal(err)
		}
		others := []*Rule{base, base.Tier(0), tier}
		var oracles []*judge.Client
		for _, r := range others {
			oracles = append(oracles, judge.Of(r.config))
		}
		key := base.AddrKey(netip.MustParseAddr("192.0.2.1"))
		var last *Rule
		for now := time.Duration(0); now < 2*time.Second; now += time.Duration(rapid.Int64Range(0, 200).Draw(t, "pause")) * time.Millisecond {
			clock.Set(now)
			lim.Advance()
			if last != nil && rapid.Bool().Draw(t, "drop") {
				base.DropTier(last)
				last = nil
			} else if last == nil {
				if last, err = base.NewTier(limit); err != nil || last.TierIndex() == tier.TierIndex() || last.TierIndex() < 1 {
					t.Fatalf("%v, %v", last, err)
				}
				for range rapid.IntRange(0, 3).Draw(t, "taken") {
					last.Take(context.Background(), key, 1)
				}
			}
			for i, r := range others {
				n := rapid.Uint64Range(1, 3).Draw(t, "cost")
				oracles[i].At(now)
				if over := oracles[i].Justified(n, r.config.Burst); over == r.Take(context.Background(), key, n).Allowed {
					t.Fatalf("rule %d (%v, burst %d) at %v: %d units, by the oracle %t", i, r.config.Rate, r.config.Burst, now, n, !over)
				} else if !over {
					oracles[i].Admit(n)
				}
			}
		}
		if after := lim.Plan(); after.Memory != plan.Memory || len(after.Rules[0].Tiers) != 1 {
			t.Errorf("the plan changes: %+v", after)
		}
	})
}

func TestNewTierBounds(t *testing.T) {
	t.Parallel()
	base := mustNew(t, strictRule("a", 5, time.Second, 7)).Rules()[0]
	for _, wrong := range []limit.Tier{{Rate: limit.Rate{N: 100_003, Per: time.Second}}, {Rate: limit.Rate{N: 1, Per: time.Nanosecond}}, {Burst: 1 << 62}} {
		if _, err := base.NewTier(wrong); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
	few, _ := base.LiveTierBytes(limit.Tier{Burst: 5, Clients: 1})
	open, _ := base.LiveTierBytes(limit.Tier{Burst: 5})
	most, _ := base.LiveTierBytes(limit.Tier{Burst: 5, Clients: 1 << 30})
	if few < limit.TierBytes || few > 16<<10 || open != most || open > 2<<20 {
		t.Errorf("%d, %d and %d bytes", few, open, most)
	}
	var first *Rule
	for i := range limit.MaxTiers {
		tier, err := base.NewTier(limit.Tier{Burst: 5, Clients: 1})
		if err != nil {
			t.Fatal(i, err)
		}
		if i == 0 {
			first = tier
		}
	}
	if _, err := base.NewTier(limit.Tier{Burst: 5}); err == nil {
		t.Error("more tiers than MaxTiers")
	}
	base.DropTier(first)
	if again, err := base.NewTier(limit.Tier{Burst: 5}); err != nil || again.TierIndex() != first.TierIndex() {
		t.Errorf("in place of one that was dropped: %v", err)
	}
}
