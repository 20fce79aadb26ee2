package fastlimit_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
)

// BenchmarkAlgorithms measures a decision by each algorithm on the machine's clock, with
// 100 units a second each: for a client that is denied by the table, for one that this
// node's exact bucket admits, for one below the sketch's threshold, and for clients of Zipf
// popularity.
func BenchmarkAlgorithms(b *testing.B) {
	for algorithm := range bucket.NumAlgorithms {
		most := uint64(1_000_000_000) // no benchmark uses up that much in a second
		switch algorithm {
		case fastlimit.SlidingWindow:
			most = 32_767
		case fastlimit.SlidingLog:
			most = 4_096
		}
		admit := func(b *testing.B, r *fastlimit.Rule, key netip.Addr) {
			b.Helper()
			for i := uint64(1); b.Loop(); i++ {
				if !r.Take(context.Background(), r.AddrKey(key), 1).Allowed {
					b.Fatalf("denied after %d", i)
				}
				if i%(most/2) == 0 && most < 1<<20 {
					r.Reset(r.AddrKey(key))
				}
			}
		}
		limit := func(n uint64, strict bool) *fastlimit.Rule {
			c := fastlimit.RuleConfig{Name: "a", Rate: fastlimit.Rate{N: n, Per: time.Second}, Algorithm: algorithm, Strict: strict}
			lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{c}})
			if err != nil {
				b.Fatal(err)
			}
			return lim.Rules()[0]
		}
		hot, ctx := v4(0xc0000207), context.Background()
		b.Run(algorithm.String()+"/denied", func(b *testing.B) {
			r := limit(1, true)
			for b.Loop() {
				r.Take(ctx, r.AddrKey(hot), 1)
			}
		})
		b.Run(algorithm.String()+"/admitted by the bucket", func(b *testing.B) {
			admit(b, limit(most, true), hot)
		})
		b.Run(algorithm.String()+"/admitted by the sketch", func(b *testing.B) {
			admit(b, limit(most, false), hot)
		})
		b.Run(algorithm.String()+"/Zipf", func(b *testing.B) {
			r := limit(100, false)
			z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, benchKeys-1)
			keys := make([]fastlimit.Key, benchKeys)
			for i := range keys {
				keys[i] = r.AddrKey(v4(uint32(z.Uint64()) * 2654435761))
			}
			i := 0
			for b.Loop() {
				r.Take(ctx, keys[i&(benchKeys-1)], 1)
				i++
			}
		})
	}
}

// A denial by the table allocates nothing with any algorithm, and neither does an admission
// by this node's exact bucket.
func TestAlgorithmsDoNotAllocate(t *testing.T) {
	for algorithm := range bucket.NumAlgorithms {
		for _, strict := range []bool{false, true} {
			lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{{
				Name: "a", Rate: fastlimit.Rate{N: 100, Per: time.Hour}, Algorithm: algorithm, Strict: strict,
			}}})
			if err != nil {
				t.Fatal(err)
			}
			r, i := lim.Rules()[0], uint32(0)
			if n := testing.AllocsPerRun(1000, func() {
				r.Allow(r.AddrKey(v4(7))) // admitted, and denied from 150 on
				r.Allow(r.AddrKey(v4(1000 + i)))
				i++
			}); n > 0 {
				t.Errorf("%v, strict %t: %v allocations", algorithm, strict, n)
			}
			_ = lim.Rules()[0].Stats()
		}
	}
}
