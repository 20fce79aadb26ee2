package fastlimit_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/reference"
	"github.com/fastlimit/fastlimit/bucket/memstore"
)

const benchKeys = 1 << 20

func v4(i uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], i)
	return netip.AddrFrom4(b)
}

func benchRule(tb testing.TB, clock *fastlimit.ManualClock, bans ...fastlimit.BanPolicy) *fastlimit.Rule {
	tb.Helper()
	c := fastlimit.RuleConfig{Name: "per-ip", Rate: fastlimit.Rate{N: 100, Per: time.Second}, Burst: 200}
	if len(bans) > 0 {
		c.Ban = bans[0]
	}
	lim, err := fastlimit.New(fastlimit.Config{Clock: clock, Rules: []fastlimit.RuleConfig{c}})
	if err != nil {
		tb.Fatal(err)
	}
	r, _ := lim.Rule("per-ip")
	return r
}

// taker makes one decision, at a time since the start.
type taker func(addr netip.Addr, now time.Duration) bool

func takers(b *testing.B) []struct {
	name string
	make func() taker
} {
	return []struct {
		name string
		make func() taker
	}{
		{"fastlimit", func() taker {
			clock := new(fastlimit.ManualClock)
			r, ctx := benchRule(b, clock), b.Context()
			var brought time.Duration
			return func(addr netip.Addr, now time.Duration) bool {
				// A machine's clock writes its cache line once in a millisecond, a
				// ManualClock at every Set, which takes 3 to 4 ns. That is the caller's
				// choice, not part of a decision.
				if now-brought >= 64*time.Microsecond {
					brought = now
					clock.Set(now)
				}
				return r.Take(ctx, r.AddrKey(addr), 1).Allowed
			}
		}},
		{"reference", func() taker {
			l, start := reference.New(100, 200), time.Unix(1e9, 0)
			return func(addr netip.Addr, now time.Duration) bool {
				return l.AllowN(addr, start.Add(now), 1)
			}
		}},
	}
}

// step is the time between two decisions in the benchmarks: a million per second.
const step = time.Microsecond

// BenchmarkZipf measures steady traffic of clients with Zipf popularity 1.1 over 2^20
// addresses.
func BenchmarkZipf(b *testing.B) {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, benchKeys-1)
	addrs := make([]netip.Addr, benchKeys)
	for i := range addrs {
		addrs[i] = v4(uint32(z.Uint64()) * 2654435761)
	}
	for _, t := range takers(b) {
		b.Run(t.name, func(b *testing.B) {
			take := t.make()
			var now time.Duration
			for _, a := range addrs {
				now += step
				take(a, now)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				now += step
				take(addrs[i&(benchKeys-1)], now)
				i++
			}
		})
	}
}

// BenchmarkDistinct measures a flood of sources that are seen once.
func BenchmarkDistinct(b *testing.B) {
	for _, t := range takers(b) {
		b.Run(t.name, func(b *testing.B) {
			take := t.make()
			var now time.Duration
			b.ReportAllocs()
			i := uint32(0)
			for b.Loop() {
				now += step
				take(v4(i*2654435761), now)
				i++
			}
		})
	}
}

// BenchmarkHotDenied measures one client far over its limit, on all cores: the cost of
// shedding. Run it with -cpu 2. The loops are inlined by hand: a call through a taker is a
// sixth of a denial.
func BenchmarkHotDenied(b *testing.B) {
	hot := v4(0xc0000207)
	onAllCores := func(b *testing.B, admits func(n int) (admitted int)) {
		admits(1000) // uses the burst up
		b.ReportAllocs()
		b.ResetTimer()
		// Not RunParallel: its counters of two cores may share a cache line,
		// which doubled the time of a denial in two runs of five.
		cores := runtime.GOMAXPROCS(0)
		var all sync.WaitGroup
		for range cores {
			all.Go(func() {
				if n := admits(b.N / cores); n > 0 {
					b.Errorf("%d admitted", n)
				}
			})
		}
		all.Wait()
	}
	limited := func(b *testing.B, bans ...fastlimit.BanPolicy) {
		clock := new(fastlimit.ManualClock)
		r, ctx := benchRule(b, clock, bans...), b.Context()
		clock.Set(step)
		onAllCores(b, func(n int) (admitted int) {
			for range n {
				if r.Take(ctx, r.AddrKey(hot), 1).Allowed {
					admitted++
				}
			}
			return admitted
		})
	}
	b.Run("fastlimit", func(b *testing.B) { limited(b) })
	b.Run("banned", func(b *testing.B) { limited(b, fastlimit.BanPolicy{After: 10, For: time.Hour}) })
	b.Run("reference", func(b *testing.B) {
		l, now := reference.New(100, 200), time.Unix(1e9, 0)
		onAllCores(b, func(n int) (admitted int) {
			for range n {
				if l.AllowN(hot, now, 1) {
					admitted++
				}
			}
			return admitted
		})
	})
}

// BenchmarkClock measures the clock reading that every decision without a time argument
// adds.
func BenchmarkClock(b *testing.B) {
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{
		{Name: "x", Rate: fastlimit.Rate{N: 1, Per: time.Second}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		lim.Now()
	}
}

// BenchmarkShared measures an exact check with a store that answers at once: the limiter's
// own share of it.
func BenchmarkShared(b *testing.B) {
	store := memstore.New(memstore.Config{})
	b.Cleanup(func() { _ = store.Close(b.Context()) })
	lim, err := fastlimit.New(fastlimit.Config{Store: store, StoreTimeout: time.Minute, Rules: []fastlimit.RuleConfig{
		{Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 1_000_000, Strict: true},
	}})
	if err != nil {
		b.Fatal(err)
	}
	r, _ := lim.Rule("per-ip")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.Uint32(); pb.Next(); i++ {
			if d := r.Take(b.Context(), r.AddrKey(v4(i%1024)), 1); d.Stage != fastlimit.StageExact {
				b.Errorf("decided by %v", d.Stage)
			}
		}
	})
}
