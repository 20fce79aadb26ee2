package engine

import (
	"math/big"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// tokens is the textbook's token bucket in rational numbers: burst tokens at
// first, refilled at the rate, of which a request takes its cost.
type tokens struct {
	rate, burst, left *big.Rat
	last              time.Duration
}

func newTokens(c limit.RuleConfig) *tokens {
	t := &tokens{rate: big.NewRat(int64(c.Rate.N), int64(c.Rate.Per)), burst: new(big.Rat).SetUint64(c.Burst)}
	t.left = new(big.Rat).Set(t.burst)
	return t
}

func (t *tokens) take(n uint64, now time.Duration) (ok bool) {
	t.left.Add(t.left, new(big.Rat).Mul(t.rate, new(big.Rat).SetInt64(int64(now-t.last))))
	if t.last = now; t.left.Cmp(t.burst) > 0 {
		t.left.Set(t.burst)
	}
	cost := new(big.Rat).SetUint64(n)
	if t.left.Cmp(cost) < 0 {
		return false
	}
	t.left.Sub(t.left, cost)
	return true
}

// whole is the number of tokens that can be taken.
func (t *tokens) whole() int64 { return new(big.Int).Quo(t.left.Num(), t.left.Denom()).Int64() }

// A rule that counts in tokens decides as the textbook's token bucket does, and
// Remaining is its tokens.
func TestTokenBucketIsTheTextbooks(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(14, 1))
	for range 200 {
		c := withAlgorithm(rule("a", 1+rng.Uint64N(20), time.Second, 1+rng.Uint64N(30)), limit.TokenBucket)
		c.Rate.Per *= time.Duration(1+rng.IntN(3)) * time.Duration(c.Rate.N) // T is whole µs: the clock rounds nothing
		c.Strict = true
		clock := new(ManualClock)
		lim, err := New(Config{Rules: []limit.RuleConfig{c}, Clock: clock, Memory: limit.MinMemory})
		if err != nil {
			t.Fatal(err)
		}
		r, want := lim.rules[0], newTokens(c)
		key := r.AddrKey(netip.MustParseAddr("192.0.2.7"))
		var now time.Duration
		for range 300 {
			now += time.Duration(rng.Int64N(int64(3*c.Rate.Per))) / time.Duration(c.Rate.N) / time.Microsecond * time.Microsecond
			clock.Set(now)
			n := 1 + rng.Uint64N(3)
			d, ok := r.Take(t.Context(), key, n), want.take(n, now)
			if d.Allowed != ok || d.Remaining != want.whole() {
				t.Fatalf("%v burst %d, %d at %v: %+v, want %t with %d tokens left", c.Rate, c.Burst, n, now, d, ok, want.whole())
			}
		}
	}
}
