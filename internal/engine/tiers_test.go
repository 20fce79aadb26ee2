package engine

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/internal/exact"
	"github.com/fastlimit/fastlimit/internal/testkit/judge"
	"github.com/fastlimit/fastlimit/limit"
	"pgregory.net/rapid"
)

func withTiers(c limit.RuleConfig, tiers ...limit.Tier) limit.RuleConfig { c.Tiers = tiers; return c }

// A tier is the exact bucket of its own limit and nothing else, whatever the rule, its
// other clients and the size of the memory: P1 and P2 with no excess.
func TestTierIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := &ManualClock{}
		c := rule("a", rapid.Uint64Range(1, 50).Draw(t, "n"), time.Second, 20)
		if c.Algorithm = limit.Algorithm(rapid.IntRange(0, int(bucket.NumAlgorithms)-1).Draw(t, "algorithm")); periodic(c) {
			c.Burst = 0
		}
		tier := limit.Tier{Rate: limit.Rate{N: rapid.Uint64Range(1, 40).Draw(t, "tier's n"), Per: time.Second}}
		if !periodic(c) {
			tier.Burst = rapid.Uint64Range(1, 60).Draw(t, "tier's burst")
		}
		lim, err := New(Config{Clock: clock, Memory: 4 * limit.MinMemory, Rules: []limit.RuleConfig{withTiers(c, limit.Tier{Rate: limit.Rate{N: 7, Per: time.Minute}}, tier)}})
		if err != nil {
			t.Fatal(err)
		}
		base := lim.Rules()[0]
		r := base.Tier(1)
		want := judge.Of(r.config)
		ours := base.AddrKey(netip.MustParseAddr("192.0.2.1"))
		for now := time.Duration(0); now < 3*time.Second; now += time.Duration(rapid.Int64Range(0, 300).Draw(t, "pause")) * time.Millisecond {
			clock.Set(now)
			for i := range rapid.IntRange(0, 30).Draw(t, "others") {
				base.Allow(base.AddrKey(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})))
			}
			n := rapid.Uint64Range(1, 3).Draw(t, "cost")
			want.At(now)
			d := r.Take(context.Background(), ours, n)
			if over := want.Justified(n, r.config.Burst); over == d.Allowed {
				t.Fatalf("%v %v burst %d at %v: %d units allowed: %t, by the oracle %t", c.Algorithm, r.config.Rate, r.config.Burst, now, n, d.Allowed, !over)
			}
			if d.Allowed {
				want.Admit(n)
			}
		}
	})
}

// A tier has the rule's name, mode, counters and keys, and a bucket of its own.
func TestTierBesideItsRule(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, withTiers(strictRule("a", 1, time.Hour, 3), limit.Tier{Burst: 5}, limit.Tier{Rate: limit.Rate{N: 2, Per: time.Minute}}), strictRule("b", 1, time.Hour, 1))
	a, b := lim.rules[0], lim.rules[1]
	five := a.Tier(0)
	if two := a.Tier(1); five.config.Rate != a.config.Rate || five.config.Burst != 5 || two.config.Burst != 2 {
		t.Errorf("tiers: %+v, %+v", five.config, two.config)
	}
	if five.Name() != "a" || five.Index() != 0 || five.owner() != a || a.Base() != a || five.TierIndex() != 0 || a.TierIndex() != -1 {
		t.Error("a tier is not told from its rule")
	}
	k := a.BytesKey([]byte("client"))
	for i := range 9 {
		if got := five.Take(t.Context(), k, 1).Allowed; got != (i < 5) {
			t.Fatalf("request %d of the tier: allowed %t", i, got)
		}
	}
	if !a.Allow(k) {
		t.Error("the rule's bucket was charged with the tier's requests")
	}
	five.Reset(k)
	b.Allow(b.BytesKey([]byte("client")))
	// A denial by another rule gives back what the tier has taken.
	charges := []Charge{{five, k, 2}, charge(b, 1)}
	if d, by := lim.TakeAll(t.Context(), charges); d.Allowed || by != 1 {
		t.Fatalf("%+v by %d", d, by)
	}
	if d := five.Peek(k, 5); !d.Allowed {
		t.Errorf("after the refund: %+v", d)
	}
	allowed, denied := a.Stats().Allowed, a.Stats().Denied
	if allowed[limit.StageExact] != 6 || denied[limit.StageTable] != 4 {
		t.Errorf("the rule has counted %v allowed and %v denied", allowed, denied)
	}
	if d := a.Unlimited(); !d.Allowed || d.Stage != limit.StageList || a.Stats().Allowed[limit.StageList] != 1 {
		t.Errorf("unlimited: %+v", d)
	}
	shadow := mustWith(t, lim, Config{Rules: []limit.RuleConfig{withMode(lim.rules[0].config, limit.Shadow)}})
	if s := shadow.rules[0].Tier(0); s.enforced || s.config.Mode != limit.Shadow {
		t.Error("the tier of a shadow rule is enforced")
	}
}

func withMode(c limit.RuleConfig, m limit.Mode) limit.RuleConfig { c.Mode = m; return c }

// With keeps the buckets of limits that stay, wherever they stand in the list, and of the
// rule itself whatever its tiers are.
func TestTiersAcrossReloads(t *testing.T) {
	t.Parallel()
	tier := func(n uint64) limit.Tier { return limit.Tier{Rate: limit.Rate{N: n, Per: time.Hour}, Clients: 40} }
	base := strictRule("a", 1, time.Hour, 3)
	lim := mustNew(t, withTiers(base, tier(2), tier(4)))
	k := lim.rules[0].BytesKey([]byte("client"))
	drain := func(r *Rule) (n int) {
		for r.Take(t.Context(), k, 1).Allowed {
			n++
		}
		return n
	}
	for _, r := range []*Rule{lim.rules[0], lim.rules[0].Tier(0), lim.rules[0].Tier(1)} {
		drain(r)
	}
	next := mustWith(t, lim, Config{Rules: []limit.RuleConfig{withTiers(base, tier(4), tier(5), limit.Tier{Rate: limit.Rate{N: 2, Per: time.Hour}, Clients: 50})}})
	for i, want := range []int{0, 5, 0} {
		if got := drain(next.rules[0].Tier(i)); got != want {
			t.Errorf("tier %d admits %d more, want %d", i, got, want)
		}
	}
	if got := drain(next.rules[0]); got != 0 {
		t.Errorf("the rule admits %d more", got)
	}
	without := mustWith(t, next, Config{Rules: []limit.RuleConfig{withTiers(base, tier(9))}})
	if !without.rules[0].Continues(lim.rules[0]) {
		t.Error("the rule began anew when its tiers changed")
	}
}

// With a shared store a tier is checked there by its own limit, under the name that the
// client has under the rule.
func TestTierInAStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		defer store.Close(context.Background())
		nodes := make([]*Rule, 2)
		for i := range nodes {
			lim := sharedLimiter(t, store, withTiers(rule("a", 1, time.Hour, 100), limit.Tier{Burst: 5}))
			nodes[i] = lim.rules[0]
		}
		admitted := 0
		for i := range 40 {
			r := nodes[i%2]
			if r.Tier(0).Take(t.Context(), r.BytesKey([]byte("client")), 1).Allowed {
				admitted++
			}
		}
		if admitted != 5 {
			t.Errorf("two nodes admitted %d, want the tier's burst, 5", admitted)
		}
	})
}

// What the plan says of tiers is what they take.
func TestTierMemory(t *testing.T) { // not parallel: it counts all that is allocated

	c := Config{Memory: 256 << 20, Rules: []limit.RuleConfig{rule("a", 100, time.Second, 200)}}

	c.Rules[0].MaxWait = time.Second // then they have lines, too

	heap := func(c Config) (used, planned int64) {
		var before, after runtime.MemStats
		for range 3 { // what tests before this one have left in pools goes by the second
			runtime.GC()
		}
		runtime.ReadMemStats(&before)
		lim, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		used, planned = int64(after.HeapAlloc-before.HeapAlloc), lim.plan.Memory
		runtime.KeepAlive(lim)
		return used, planned
	}
	was, plannedWithout := heap(c)
	for i := range limit.MaxTiers {
		clients := 100
		if i%4 == 0 {
			clients = 0
		}
		c.Rules[0].Tiers = append(c.Rules[0].Tiers, limit.Tier{Rate: limit.Rate{N: uint64(i%40 + 1), Per: time.Minute}, Burst: uint64(i + 1), Clients: clients})
	}
	used, planned := heap(c)
	t.Logf("%d tiers take %d bytes, planned %d", limit.MaxTiers, used-was, planned-plannedWithout)
	if used-was > planned-plannedWithout || planned > c.Memory {
		t.Errorf("%d tiers take %d bytes, planned %d; %d of %d in all", limit.MaxTiers, used-was, planned-plannedWithout, planned, c.Memory)
	}
	if size := unsafe.Sizeof(exact.Shared{}); size+64*48 > limit.SharedTierBytes {
		t.Errorf("a shared tier takes %d bytes and its maps, planned are %d", size, limit.SharedTierBytes)
	}
	c.Memory = 4 << 20
	if _, err := New(c); err == nil {
		t.Error("4 MiB hold 1024 tiers")
	}
}

// Decisions of tiers allocate nothing.
func TestTierAllocations(t *testing.T) { // not parallel: it counts all that is allocated

	lim := mustNew(t, withTiers(rule("a", 1000, time.Second, 1000), limit.Tier{Burst: 5}))

	r := lim.rules[0]

	charges := []Charge{{r.Tier(0), r.AddrKey(netip.MustParseAddr("192.0.2.1")), 1}}

	if n := testing.AllocsPerRun(100, func() { lim.TakeAll(t.Context(), charges) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { r.Unlimited() }); n != 0 {
		t.Errorf("%v allocations of a client without limit", n)
	}
}

// Tiers are as fast as strict rules, and do not slow down their rule.
func BenchmarkTiers(b *testing.B) {
	for _, tiers := range []int{0, 100} {
		c := rule("a", 100, time.Second, 200)
		for i := range tiers {
			c.Tiers = append(c.Tiers, limit.Tier{Burst: uint64(i + 1)})
		}
		lim, err := New(Config{Rules: []limit.RuleConfig{c}})
		if err != nil {
			b.Fatal(err)
		}
		r := lim.rules[0]
		b.Run(fmt.Sprintf("%d", tiers), func(b *testing.B) {
			i := uint32(0)
			for b.Loop() {
				i++
				r.Allow(r.AddrKey(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})))
			}
		})
	}
}
