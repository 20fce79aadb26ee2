package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// change has the last limiter of a chain be replaced.
func change(t *testing.T, l *Limiter, c limit.RuleConfig) *Limiter {
	t.Helper()
	return mustWith(t, l, Config{Rules: []limit.RuleConfig{c}, Memory: limit.MinMemory})
}

// A bucket of 19 says the same of a client that took 19 as of one that took 20 before the burst was
// lowered. When it is 20 again the first has one unit left, which it must get, and so the second gets
// one that it has had: decision 33 says why.
func TestBurstLoweredAndRaised(t *testing.T) {
	t.Parallel()
	const changes = 20
	twenty, less := strictRule("a", 1, time.Hour, 20), strictRule("a", 1, time.Hour, 19)
	l := chainOf(t, twenty)[0]
	conforms, full := l.rules[0].BytesKey([]byte("conforms")), l.rules[0].BytesKey([]byte("full"))
	l.rules[0].Take(t.Context(), conforms, 19)
	l.rules[0].Take(t.Context(), full, 20)
	for i := range changes {
		l = change(t, change(t, l, less), twenty)
		if d := l.rules[0].Peek(conforms, 1); !d.Allowed {
			t.Fatalf("change %d, P1: the 20th unit of 20: %+v", i, d)
		}
		forgiven := 0
		for l.rules[0].Take(t.Context(), full, 1).Allowed {
			forgiven++
		}
		if forgiven != 1 {
			t.Fatalf("change %d: %d units forgiven, want the 1 by which the burst was lowered", i, forgiven)
		}
	}
}

// TestAnySequenceOfLimits changes rate and burst at random, and sends what fits or nearly does. own is what a
// client was admitted, under the rates in force, and is never cut. A client within the limit by that is
// admitted, whatever limits came before (P1). And what is admitted fits the limit, except for at most the
// units by which bursts were lowered.
func TestAnySequenceOfLimits(t *testing.T) {
	t.Parallel()
	denied, beyond := 0, 0
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 33))
		limit := func() limit.RuleConfig { return strictRule("a", 1, time.Second<<rng.IntN(4), 1+rng.Uint64N(30)) }
		c := limit()
		l := chainOf(t, c)[0]
		key := l.rules[0].BytesKey([]byte("x"))
		own, forgiven := uint64(0), uint64(0)
		for range 150 {
			switch rng.IntN(6) {
			case 0:
				next := limit()
				if rng.IntN(2) == 0 {
					next.Rate = c.Rate
				}
				forgiven += max(c.Burst, next.Burst) - next.Burst
				c, l = next, change(t, l, next)
			case 1:
				by := time.Duration(1+rng.IntN(2)) * 8 * time.Second
				l.manual.Set(l.Now() + by)
				own -= min(own, uint64(by/c.Rate.Per))
			default:
				n := 1 + rng.Uint64N(3)
				if !l.rules[0].Take(t.Context(), key, n).Allowed {
					if denied++; own+n <= c.Burst {
						t.Fatalf("seed %d, P1: %d units at level %d of %d denied", seed, n, own, c.Burst)
					}
					continue
				}
				if own += n; own > c.Burst {
					beyond++
				}
				if own > c.Burst+forgiven {
					t.Fatalf("seed %d: at level %d of %d, of which %d may be forgiven", seed, own, c.Burst, forgiven)
				}
			}
		}
	}
	if denied < 1000 || beyond < 100 {
		t.Errorf("%d denied, %d beyond the limit: this shows little", denied, beyond)
	}
}
