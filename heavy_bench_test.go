package fastlimit_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// zipfAddrs is a sequence of addresses with Zipf popularity 1.1 over 2^20.
func zipfAddrs() []netip.Addr {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, benchKeys-1)
	addrs := make([]netip.Addr, benchKeys)
	for i := range addrs {
		addrs[i] = v4(uint32(z.Uint64()) * 2654435761)
	}
	return addrs
}

func heavyRule(tb testing.TB, slots int) *fastlimit.Rule {
	tb.Helper()
	lim, err := fastlimit.New(fastlimit.Config{HeavyHitters: slots, Rules: []fastlimit.RuleConfig{
		{Name: "per-ip", Rate: fastlimit.Rate{N: 100, Per: time.Second}, Burst: 200},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	r, _ := lim.Rule("per-ip")
	return r
}

// BenchmarkHeavy is what counting by name adds to a decision. The two limiters
// take turns over the same traffic, and the medians of 40 turns are compared:
// what else the machine does then weighs on both.
//
//   - zipf: steady traffic, a fifth of which is for clients without a slot;
//   - hot: one client that the table denies, of whom one in 64 is noted.
func BenchmarkHeavy(b *testing.B) {
	const turns, each = 160, 1 << 15
	for _, w := range []struct {
		name  string
		addrs []netip.Addr
		step  time.Duration
	}{
		{"zipf", zipfAddrs(), step},
		{"hot", slices.Repeat([]netip.Addr{v4(7)}, each), 0},
	} {
		b.Run(w.name, func(b *testing.B) {
			ctx, rules := b.Context(), [2]*fastlimit.Rule{heavyRule(b, 0), heavyRule(b, 8192)}
			var clock [2]time.Duration
			var at [2]int
			run := func(i, n int) {
				r := rules[i]
				for range n {
					clock[i] += w.step
					r.TakeAt(ctx, r.AddrKey(w.addrs[at[i]]), 1, clock[i]+time.Second)
					at[i] = (at[i] + 1) % len(w.addrs)
				}
			}
			run(0, 4*benchKeys)
			run(1, 4*benchKeys)
			b.ReportAllocs()
			var ns [2][]float64
			for b.Loop() {
				for i := range 2 * turns {
					start := time.Now()
					run(i%2, each)
					ns[i%2] = append(ns[i%2], float64(time.Since(start).Nanoseconds())/each)
				}
			}
			b.ReportMetric(median(ns[0]), "without-ns")
			b.ReportMetric(median(ns[1]), "with-ns")
			b.ReportMetric(median(ns[1])-median(ns[0]), "extra-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
