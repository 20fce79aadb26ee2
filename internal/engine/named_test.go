package engine

import (
	"context"
	"math/big"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/limit"
	"pgregory.net/rapid"
)

func withMaxRate(c limit.RuleConfig, most limit.Rate) limit.RuleConfig { c.MaxRate = most; return c }

func perSec(n uint64) limit.Rate { return limit.Rate{N: n, Per: time.Second} }

// busy is the oracle of a client at rates that are named: until when its bucket is busy
// by exact rationals, where n units take n/r of the rate that they were charged by.
type busy struct{ until, now big.Rat }

func (b *busy) at(now time.Duration) {
	b.now.SetInt64(int64(now))
	if b.until.Cmp(&b.now) < 0 {
		b.until.Set(&b.now)
	}
}

// after is the level in ns with n units more at a rate.
func (b *busy) after(n uint64, r limit.Rate) *big.Rat {
	t := new(big.Rat).SetFrac(new(big.Int).Mul(new(big.Int).SetUint64(n), big.NewInt(int64(r.Per))), new(big.Int).SetUint64(r.N))
	return t.Add(t, &b.until).Sub(t, &b.now)
}

func (b *busy) charge(n uint64, r limit.Rate) { b.until.Add(&b.now, b.after(n, r)) }

// A client whose rates change is judged as by the rational oracle: never denied what fits
// (P1), and never admitted more than the rounding of T allows (P2), whatever rates come in
// what order, more of them than are kept, and whatever others do.
func TestNamedRatesAreExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := &ManualClock{}
		lim, err := New(Config{Clock: clock, Memory: 8 * limit.MinMemory, Rules: []limit.RuleConfig{withMaxRate(rule("a", 10, time.Second, 20), perSec(1000))}})
		if err != nil {
			t.Fatal(err)
		}
		r := lim.Rules()[0]
		ours := r.AddrKey(netip.MustParseAddr("192.0.2.1"))
		rates := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) limit.Rate {
			return limit.Rate{N: rapid.Uint64Range(1, 1000).Draw(t, "n"), Per: rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "per")}
		}), 1, 4).Draw(t, "rates")
		want, spare := new(busy), new(busy)
		for now := time.Duration(0); now < 20*time.Second; now += time.Duration(rapid.Int64Range(0, 900_000).Draw(t, "pause")) * time.Microsecond {
			clock.Set(now)
			for i := range rapid.IntRange(0, 70).Draw(t, "others") {
				other := r.AtRate(perSec(uint64(i + 1)))
				other.Take(context.Background(), other.AddrKey(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})), 1)
			}
			one := r
			if i := rapid.IntRange(-1, len(rates)-1).Draw(t, "rate"); i >= 0 {
				one = r.AtRate(rates[i])
			}
			c := one.Config()
			n := rapid.Uint64Range(1, min(c.Burst, 5)).Draw(t, "cost")
			want.at(now)
			spare.at(now)
			d := one.Take(context.Background(), ours, n)
			most := new(big.Rat).SetFrac(new(big.Int).Mul(new(big.Int).SetUint64(c.Burst), big.NewInt(int64(c.Rate.Per))), new(big.Int).SetUint64(c.Rate.N))
			if !d.Allowed && want.after(n, c.Rate).Cmp(most) <= 0 {
				t.Fatalf("%v: %d units at %v burst %d fit, and are denied (P1)", now, n, c.Rate, c.Burst)
			}
			if d.Allowed {
				// What is admitted fits but for 1 µs of grace, 1 µs of the clock, and a
				// millionth, by which T is rounded down at most up to 1000/s.
				level := spare.after(n, c.Rate)
				level.Mul(level, big.NewRat(999_999, 1_000_000)).Sub(level, big.NewRat(2000, 1))
				if level.Cmp(most) > 0 {
					t.Fatalf("%v: %d units at %v burst %d do not fit, and are admitted (P2)", now, n, c.Rate, c.Burst)
				}
				want.charge(n, c.Rate)
				spare.charge(n, c.Rate)
			}
		}
	})
}

// Nobody gains by alternating between rates, or between a named one and the rule's own:
// what is admitted is never more than at the best of them alone.
func TestAlternatingGainsNothing(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]limit.Rate{{perSec(10), perSec(20)}, {perSec(20), perSec(7)}, {{N: 5, Per: time.Minute}, perSec(20)}} {
		clock := &ManualClock{}
		lim, err := New(Config{Clock: clock, Rules: []limit.RuleConfig{withMaxRate(rule("a", 10, time.Second, 10), perSec(1000))}})
		if err != nil {
			t.Fatal(err)
		}
		r := lim.rules[0]
		k := r.AddrKey(netip.MustParseAddr("192.0.2.1"))
		admitted := 0
		for i := range 10_000 { // 10 s, two requests each ms
			clock.Set(time.Duration(i) * time.Millisecond)
			for _, rate := range pair {
				if r.AtRate(rate).Take(t.Context(), k, 1).Allowed {
					admitted++
				}
			}
		}
		if most := 20 + 10*20 + 1; admitted > most {
			t.Errorf("%v: %d admitted, want at most %d", pair, admitted, most)
		}
	}
}

func TestAtRateBounds(t *testing.T) {
	t.Parallel()
	c := withMaxRate(rule("a", 10, time.Second, 20), perSec(1000))
	c.Cost = 3
	r := mustNew(t, c).rules[0]
	day := 24 * time.Hour
	for _, tt := range []struct {
		named, rate limit.Rate
		burst       uint64
	}{
		{perSec(7), perSec(7), 7},
		{perSec(2), perSec(2), 3}, // the cost
		{perSec(1000), perSec(1000), 1000},
		{perSec(1001), perSec(1000), 1000},
		{limit.Rate{N: 60_000, Per: time.Minute}, limit.Rate{N: 60_000, Per: time.Minute}, 1000}, // the burst of the bound
		{limit.Rate{N: 60_001, Per: time.Minute}, perSec(1000), 1000},
		{limit.Rate{N: 1 << 63, Per: 366 * day}, perSec(1000), 1000},
		{limit.Rate{N: 1, Per: 300 * day}, limit.Rate{N: 1, Per: day}, 3},
		{limit.Rate{}, limit.Rate{N: 1, Per: day}, 3},
	} {
		got := r.AtRate(tt.named)
		if c := got.Config(); c.Rate != tt.rate || c.Burst != tt.burst || got.NamedIndex() < 0 || got.owner() != r || got.TierIndex() >= 0 || got.Index() != 0 || got.Name() != "a" {
			t.Errorf("%v: %v burst %d, want %v burst %d", tt.named, c.Rate, c.Burst, tt.rate, tt.burst)
		}
		if got != r.AtRate(tt.named) {
			t.Errorf("%v: made twice", tt.named)
		}
	}
	if r.AtRate(perSec(10)) != r || r.NamedIndex() != -1 {
		t.Error("the rule's own rate is not the rule")
	}
	c.Cost = 20
	if got := mustNew(t, c).rules[0].AtRate(limit.Rate{N: 1, Per: day}).Config(); got.Burst < c.Cost {
		t.Errorf("%v burst %d admits no request of cost %d", got.Rate, got.Burst, c.Cost)
	}
}

// Limits are made, found and dropped by many at a time, and a client's bucket outlives
// them. Run with -race.
func TestNamedRatesConcurrently(t *testing.T) {
	t.Parallel()
	r := mustNew(t, withMaxRate(rule("a", 1, time.Hour, 5), perSec(1000))).rules[0]
	k := r.AddrKey(netip.MustParseAddr("192.0.2.1"))
	var admitted [8]int
	var all sync.WaitGroup
	for g := range admitted {
		all.Go(func() {
			for i := range 1000 {
				one := r.AtRate(limit.Rate{N: uint64(i%(2*limit.MaxNamedRates)) + 1, Per: time.Hour * 24})
				if one.Take(context.Background(), k, 1).Allowed {
					admitted[g]++
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range admitted {
		sum += n
	}
	// All that is admitted together keeps the bucket busy for a day at most, and at
	// 128 a day no more than 128 fit into it.
	if sum == 0 || sum > 2*limit.MaxNamedRates {
		t.Errorf("%d admitted", sum)
	}
	if n := len(*r.named.limits.Load()); n != limit.MaxNamedRates {
		t.Errorf("%d limits are kept, want %d", n, limit.MaxNamedRates)
	}
}

// Nodes that share a store share the bucket, whatever rates are named.
func TestNamedRatesInAStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		defer store.Close(context.Background())
		var nodes [2]*Rule
		for i := range nodes {
			nodes[i] = sharedLimiter(t, store, withMaxRate(rule("a", 1, time.Hour, 5), perSec(1000))).rules[0]
		}
		admitted := 0
		for i := range 60 {
			r := nodes[i%2].AtRate(limit.Rate{N: uint64(10 - i%2*5), Per: time.Hour})
			if r.Take(t.Context(), r.BytesKey([]byte("client")), 1).Allowed {
				admitted++
			}
		}
		// Pairs of 6 and 12 minutes fill an hour: three of each are 54, and one more of 6.
		if admitted != 7 {
			t.Errorf("two nodes admitted %d, want 7", admitted)
		}
	})
}

// A reload keeps what clients have taken by rates that were named.
func TestNamedRatesAcrossReloads(t *testing.T) {
	t.Parallel()
	c := withMaxRate(rule("a", 1, time.Hour, 5), perSec(1000))
	lim := mustNew(t, c)
	old := lim.rules[0].AtRate(limit.Rate{N: 3, Per: time.Hour})
	k := old.AddrKey(netip.MustParseAddr("192.0.2.1"))
	for range 3 {
		if !old.Take(t.Context(), k, 1).Allowed {
			t.Fatal("denied")
		}
	}
	c.MaxRate = perSec(2000)
	next := mustWith(t, lim, Config{Rules: []limit.RuleConfig{c}})
	if r := next.rules[0].AtRate(limit.Rate{N: 3, Per: time.Hour}); r == old || r.Take(t.Context(), k, 1).Allowed {
		t.Error("the bucket was forgotten")
	}
}

func TestNamedRatesAllocations(t *testing.T) { // not parallel: it counts all that is allocated

	r := mustNew(t, withMaxRate(rule("a", 1000, time.Second, 1000), perSec(5000))).rules[0]

	k := r.AddrKey(netip.MustParseAddr("192.0.2.1"))

	for i := range limit.MaxNamedRates {
		r.AtRate(perSec(uint64(i + 1)))
	}
	if n := testing.AllocsPerRun(100, func() { r.AtRate(perSec(5)).Take(context.Background(), k, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A limit that is named while the store comes back may have been named before, and brings
// along what the node admitted meanwhile.
func TestNewNamedRateBringsFloors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlowStore(t)
		down := s.outage()
		cfg := withMaxRate(rule("a", 1, time.Hour, 5), perSec(1000))
		a, b := sharedLimiter(t, s, cfg).rules[0], sharedLimiter(t, s, cfg).rules[0]
		take := func(r *Rule, n, units uint64) limit.Decision {
			r = r.AtRate(limit.Rate{N: n, Per: time.Hour})
			return r.Take(t.Context(), r.BytesKey([]byte("x")), units)
		}
		down.Store(true)
		if d := take(a, 5, 4); !d.Allowed || !d.Degraded {
			t.Fatalf("while it is away: %+v", d)
		}
		down.Store(false)
		if d := take(a, 6, 1); !d.Allowed || d.Degraded {
			t.Fatalf("at another rate: %+v", d)
		}
		if d := take(b, 5, 1); d.Allowed { // 48 + 10 + 12 minutes
			t.Errorf("another node: %+v, want 58 of 60 minutes taken", d)
		}
	})
}
