package fastlimit_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// zipfAddrs returns a sequence of addresses with Zipf popularity 1.1 over 2^20.
func zipfAddrs() []netip.Addr {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, benchKeys-1)
	addrs := make([]netip.Addr, benchKeys)
	for i := range addrs {
		addrs[i] = v4(uint32(z.Uint64()) * 2654435761)
	}
	return addrs
}

func talkerRule(tb testing.TB, slots int, clock *fastlimit.ManualClock) *fastlimit.Rule {
	tb.Helper()
	lim, err := fastlimit.New(fastlimit.Config{TopTalkers: slots, Clock: clock, Rules: []fastlimit.RuleConfig{
		{Name: "per-ip", Rate: fastlimit.Rate{N: 100, Per: time.Second}, Burst: 200},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	r, _ := lim.Rule("per-ip")
	return r
}

const (
	talkerPairs = 160
	talkerTurn  = 1 << 15 // decisions
)

// BenchmarkTalkers measures how much tracking top talkers adds to a decision. Two limiters,
// one without and one with 1024 top talkers (the default of serve) or 8192 (that of a
// cluster), take turns of a few ms over the same traffic. It reports the median of the
// differences of 160 pairs of turns, so that other work of the machine affects both.
//
//   - zipf: steady traffic, a quarter of which is for clients without a slot;
//   - hot: one client that the table denies, some of whose denials are sampled.
func BenchmarkTalkers(b *testing.B) {
	for _, w := range []struct {
		name  string
		addrs []netip.Addr
		step  time.Duration
	}{
		{"zipf", zipfAddrs(), step},
		{"hot", slices.Repeat([]netip.Addr{v4(7)}, talkerTurn), 0},
	} {
		for _, slots := range []int{1024, 8192} {
			b.Run(w.name+"/"+strconv.Itoa(slots), func(b *testing.B) { benchTalkers(b, slots, w.addrs, w.step) })
		}
	}
}

func benchTalkers(b *testing.B, slots int, addrs []netip.Addr, step time.Duration) {
	b.Helper()
	without, with := newTurns(b, 0, addrs, step), newTurns(b, slots, addrs, step)
	b.ReportAllocs()
	base, extra := make([]float64, 0, talkerPairs), make([]float64, 0, talkerPairs)
	for b.Loop() {
		base, extra = base[:0], extra[:0]
		for range talkerPairs {
			ns := without.turn(b.Context(), talkerTurn)
			base = append(base, ns)
			extra = append(extra, with.turn(b.Context(), talkerTurn)-ns)
		}
	}
	b.ReportMetric(median(base), "without-ns")
	b.ReportMetric(median(extra), "extra-ns")
	b.ReportMetric(0, "ns/op") // of 160 pairs: says nothing
}

// turns sends traffic to a rule a turn at a time.
type turns struct {
	rule  *fastlimit.Rule
	clock *fastlimit.ManualClock
	addrs []netip.Addr
	at    int
	now   time.Duration
	step  time.Duration
}

func newTurns(tb testing.TB, slots int, addrs []netip.Addr, step time.Duration) *turns {
	tb.Helper()
	clock := new(fastlimit.ManualClock)
	t := &turns{rule: talkerRule(tb, slots, clock), clock: clock, addrs: addrs, now: time.Second, step: step}
	t.turn(tb.Context(), 4*benchKeys) // until slots are full and the flooders known
	return t
}

// turn returns the mean time of n decisions in ns.
func (t *turns) turn(ctx context.Context, n int) float64 {
	start := time.Now()
	for range n {
		t.now += t.step
		t.clock.Set(t.now)
		t.rule.Take(ctx, t.rule.AddrKey(t.addrs[t.at]), 1)
		if t.at++; t.at == len(t.addrs) {
			t.at = 0
		}
	}
	return float64(time.Since(start).Nanoseconds()) / float64(n)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
