package engine

import (
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/limit"
)

// TestAuditConcurrent has goroutines overtake each other on the machine's clock, in buckets that
// drain in some µs, while units are given back, buckets are emptied and swept, and limiters replaced. The
// audit reports nothing.
func TestAuditConcurrent(t *testing.T) {
	t.Parallel()
	const workers = 8
	for name, c := range map[string]limit.RuleConfig{
		"fast":   rule("a", 1_000_000, time.Second, 50),
		"slow":   rule("a", 2000, time.Second, 10),
		"strict": withStrict(rule("a", 300_000, time.Second, 7)),
		"theta":  withTheta(rule("a", 50_000, time.Second, 100), 0.1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := New(Config{Rules: []limit.RuleConfig{c}, Memory: limit.MinMemory})
			if err != nil {
				t.Fatal(err)
			}
			auditAll(l)
			steps := testkit.Size(20_000, 300_000)
			if raceEnabled {
				steps /= 20
			}
			for round := range 4 {
				next := l
				if round > 0 { // the same limit, or another
					changed := c
					changed.Burst += uint64(round / 2)
					next = mustWith(t, l, Config{Rules: []limit.RuleConfig{changed}, Memory: limit.MinMemory})
					auditAll(next)
				}
				var all sync.WaitGroup
				for i := range workers {
					in := next
					if i == 0 {
						in = l // requests that still have the limiter before
					}
					all.Go(func() { auditLoad(t, in, rand.New(rand.NewPCG(uint64(i), uint64(round))), steps) })
				}
				all.Wait()
				silent(t, l)
				silent(t, next)
				l = next
			}
			if s := l.rules[0].Stats().Audit; s.Requests == 0 { // of clients there are none any more: a bucket drains in some µs
				t.Errorf("nothing was audited: %+v", s)
			}
		})
	}
}

func auditLoad(t *testing.T, l *Limiter, rng *rand.Rand, steps int) {
	r := l.rules[0]
	for i := range steps {
		key := r.AddrKey(netip.AddrFrom4([4]byte{10, 0, 0, byte(rng.IntN(3))}))
		switch n := 1 + rng.Uint64N(3); rng.IntN(100) {
		case 0:
			r.Refund(key, n)
		case 1:
			if rng.IntN(50) == 0 {
				r.Reset(key)
			}
		case 2:
			l.Advance()
		case 3:
			r.TakeUpTo(t.Context(), key, 5)
		case 4:
			at := l.Now()
			if r.Take(t.Context(), key, n).Allowed {
				r.Settle(t.Context(), key, n, rng.Uint64N(6), at)
			}
		case 5:
			time.Sleep(time.Microsecond)
		case 6:
			runtime.Gosched()
		default:
			r.Take(t.Context(), key, n)
		}
		if i%5000 == 0 {
			r.Stats()
		}
	}
}
