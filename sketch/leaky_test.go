package sketch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func newLeaky(tb testing.TB, blocks int, limit uint64) *Leaky {
	tb.Helper()
	s, err := NewLeaky(blocks, limit)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// noLimit is above every level of the tests.
const noLimit = 1 << 60

// tat is the oracle: one exact leaky bucket as the time until which it is busy.
type tat uint64

func (c *tat) add(now, cost uint64)      { *c = tat(max(uint64(*c), now) + cost) }
func (c tat) level(now uint64) uint64    { return max(uint64(c), now) - now }
func (c tat) after(now, cost uint64) tat { c.add(now, cost); return c }

func randomDigest(rng *rand.Rand) Digest { return Digest{Pos: rng.Uint64(), ID: rng.Uint64()} }

// places are ways to lay keys out, from free cells to one cell triple for all.
var places = []struct {
	name   string
	blocks int
	digest func(rng *rand.Rand) Digest
}{
	{"spread", 1 << 10, randomDigest},
	{"crowded", 8, randomDigest},
	{"one block", 1, randomDigest},
	{"one place for all", 4, func(*rand.Rand) Digest { return Digest{} }},
	{"one subset for all", 2, func(rng *rand.Rand) Digest { return Digest{Pos: rng.Uint64() &^ 63} }},
}

// traffic drives random arrivals of keys through step: bursts, pauses long
// enough to drain, and times that step back a little, as goroutines that
// overtake each other cause.
func traffic(rng *rand.Rand, keys, steps int, step func(key int, now, cost uint64)) {
	now := uint64(1 << 30)
	for range steps {
		switch rng.IntN(1000) {
		case 0:
			now += rng.Uint64N(1 << 20)
		case 1, 2, 3, 4:
			now += rng.Uint64N(1 << 14)
		default:
			now += rng.Uint64N(300)
		}
		k := rng.IntN(keys)
		if rng.IntN(2) == 0 {
			k %= 3 // a few are heavy
		}
		step(k, now-rng.Uint64N(100), 1+rng.Uint64N(1000))
	}
}

// TestLeakyNeverBelowLevel: S >= level of every key, at every time, whatever
// shares its cells.
func TestLeakyNeverBelowLevel(t *testing.T) {
	t.Parallel()
	const keys = 48
	for seed, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), 1))
			s := newLeaky(t, p.blocks, noLimit)
			digests, exact := make([]Digest, keys), make([]tat, keys)
			for i := range digests {
				digests[i] = p.digest(rng)
			}
			traffic(rng, keys, 100_000, func(k int, now, cost uint64) {
				exact[k].add(now, cost)
				if got, want := s.Add(digests[k], now, cost), exact[k].level(now); got < want {
					t.Fatalf("key %d at %d: Add returned %d, below its own level %d", k, now, got, want)
				}
				other := rng.IntN(keys)
				if got, want := s.Level(digests[other], now), exact[other].level(now); got < want {
					t.Fatalf("key %d at %d: Level %d, below its own level %d", other, now, got, want)
				}
			})
		})
	}
}

// TestLeakyIsExact: a key alone, or all keys in one place, leave nothing to
// estimate.
func TestLeakyIsExact(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{1, 30} {
		rng := rand.New(rand.NewPCG(7, uint64(keys)))
		s := newLeaky(t, 1, noLimit)
		d := randomDigest(rng)
		var all tat
		traffic(rng, keys, 50_000, func(_ int, now, cost uint64) {
			before := all.level(now)
			if got := s.Level(d, now); got != before {
				t.Fatalf("Level = %d, want %d", got, before)
			}
			all.add(now, cost)
			if got := s.Add(d, now, cost); got != all.level(now) {
				t.Fatalf("Add = %d, want %d", got, all.level(now))
			}
		})
	}
}

// TestLeakyLimit: with a limit, S stays above the level of every stream that
// is part of a key's hits and itself stays within the limit. The admitted
// stream of P2 is such a part.
func TestLeakyLimit(t *testing.T) {
	t.Parallel()
	const (
		keys    = 24
		limit   = 20_000
		maxCost = 1000
	)
	for seed, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), 2))
			s := newLeaky(t, p.blocks, limit)
			digests, part := make([]Digest, keys), make([]tat, keys)
			for i := range digests {
				digests[i] = p.digest(rng)
			}
			capped := 0
			traffic(rng, keys, 100_000, func(k int, now, cost uint64) {
				s.Add(digests[k], now, cost)
				if after := part[k].after(now, cost); after.level(now) <= limit && rng.IntN(8) > 0 {
					part[k] = after
				}
				got := s.Level(digests[k], now)
				if want := part[k].level(now); got < want {
					t.Fatalf("key %d: Level %d, below the level %d of a part of its hits", k, got, want)
				}
				// now may lie 100 ticks before the last arrival.
				if got >= limit+maxCost+100 {
					t.Fatalf("key %d: Level %d with limit %d", k, got, limit)
				}
				if got >= limit {
					capped++
				}
			})
			if p.blocks <= 4 && capped == 0 {
				t.Error("the limit was never reached: this run shows nothing")
			}
		})
	}
}

// TestLeakySteps traces one key through the edges of raise.
func TestLeakySteps(t *testing.T) {
	t.Parallel()
	s := newLeaky(t, 3, 100)
	d := Digest{Pos: 0x123456789abcdef}
	for i, step := range []struct {
		now, cost, want uint64
		why             string
	}{
		{1000, 10, 10, "from idle"},
		{1000, 10, 20, "on a busy cell"},
		{1005, 10, 25, "after a leak of 5"},
		{1030, 10, 10, "at the tick when it is drained"},
		{1041, 10, 10, "a tick after it was drained"},
		{1041, 89, 99, "to one below the limit"},
		{1041, 50, 149, "over it: a cell below the limit takes all of a cost"},
		{1041, 50, 149, "not raised further"},
		{1090, 50, 100, "at the limit, not raised"},
		{1091, 50, 149, "one below, raised"},
		{1000, 50, 240, "an older now sees a higher level and adds nothing"},
		{5000, 0, 0, "no cost"},
	} {
		if got := s.Add(d, step.now, step.cost); got != step.want {
			t.Fatalf("step %d, %s: Add(%d, %d) = %d, want %d", i, step.why, step.now, step.cost, got, step.want)
		}
		if got := s.Level(d, step.now); got != step.want {
			t.Fatalf("step %d, %s: Level = %d, want %d", i, step.why, got, step.want)
		}
	}
}

func TestNewLeakyRejects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		blocks int
		limit  uint64
	}{{0, 1}, {-1, 1}, {1<<32 + 1, 1}, {1, 0}} {
		if _, err := NewLeaky(tt.blocks, tt.limit); err == nil {
			t.Errorf("NewLeaky(%d, %d): no error", tt.blocks, tt.limit)
		}
	}
	s := newLeaky(t, 5, 1)
	if len(s.blocks) != 5 {
		t.Errorf("5 blocks: %d", len(s.blocks))
	}
}

// TestLeakyBusy: an unsaturated cell works off what arrives, at 1 tick per
// tick, so the long-run share of busy cells is ρ.
func TestLeakyBusy(t *testing.T) {
	t.Parallel()
	for _, rho := range []float64{0.1, 0.25, 0.5, 0.9} {
		t.Run(fmt.Sprint(rho), func(t *testing.T) {
			t.Parallel()
			n := newNoise(t, 1<<9, rho, 3)
			n.run(60)
			sum := 0.0
			const rounds = 20
			for range rounds {
				n.run(10)
				sum += n.s.Busy(n.now, 1<<20)
			}
			// Neighbouring rounds and the cells of a block are correlated: count
			// only the blocks of every other round as independent.
			sigma := math.Sqrt(rho * (1 - rho) / (rounds / 2 * float64(len(n.s.blocks))))
			if got := sum / rounds; math.Abs(got-rho) > 5*sigma {
				t.Errorf("Busy = %.4f, want %.4f ± %.4f", got, rho, 5*sigma)
			}
			if got, whole := n.s.Busy(n.now, 128), n.s.Busy(n.now, 512); math.Abs(got-whole) > 0.1 {
				t.Errorf("Busy over 128 blocks = %.3f, over all 512 %.3f", got, whole)
			}
		})
	}
	s := newLeaky(t, 7, noLimit)
	for _, sample := range []int{-1, 0, 1, 3, 7, 1000} {
		if got := s.Busy(0, sample); got != 0 {
			t.Errorf("Busy of an empty sketch over %d = %v", sample, got)
		}
	}
	for i := range s.blocks {
		for j := range s.blocks[i] {
			s.blocks[i][j] = 11
		}
	}
	for _, sample := range []int{-1, 0, 1, 3, 7, 1000} {
		if got := s.Busy(10, sample); got != 1 {
			t.Errorf("Busy of a full sketch over %d = %v", sample, got)
		}
		if got := s.Busy(11, sample); got != 0 {
			t.Errorf("Busy when all have just drained over %d = %v", sample, got)
		}
	}
	s = newLeaky(t, 64, noLimit)
	for i := range s.blocks[:16] {
		s.blocks[i] = block{11, 11, 11, 11, 11, 11, 11, 11}
	}
	for _, sample := range []int{4, 8, 16, 32, 64} { // spread over all blocks, a quarter of which is busy
		if got := s.Busy(10, sample); got != 0.25 {
			t.Errorf("Busy of a quarter over %d = %v", sample, got)
		}
	}
}

// TestLeakyCharge: what is charged from elsewhere counts as a hit does, up to
// the limit, and lowers nothing.
func TestLeakyCharge(t *testing.T) {
	t.Parallel()
	const limit = 1000
	rng := rand.New(rand.NewPCG(8, 8))
	d := Digest{Pos: 5}
	for range 1000 {
		s, now := newLeaky(t, 1, limit), uint64(1<<20)
		for range 20 {
			at := now - rng.Uint64N(400) // callers overtake each other
			cost := rng.Uint64N(600)
			if rng.IntN(10) == 0 {
				cost = math.MaxUint64 - rng.Uint64N(9)
			}
			before := s.Level(d, at)
			s.Charge(d, at, cost)
			want := max(before, min(before+min(cost, limit), limit))
			if got := s.Level(d, at); got != want {
				t.Fatalf("level %d, %d charged: %d, want %d", before, cost, got, want)
			}
			if rng.IntN(3) == 0 {
				s.Add(d, now, rng.Uint64N(300))
			}
			now += rng.Uint64N(800)
		}
	}
}

// TestShare: what one of two sketches over the same cells is charged the other
// reports, and neither stops rising below where the first one did.
func TestShare(t *testing.T) {
	t.Parallel()
	s, err := NewLeaky(4, 100)
	if err != nil {
		t.Fatal(err)
	}
	low, high, d := s.Share(10), s.Share(1000), Digest{Pos: 12345}
	for range 50 {
		low.Add(d, 1, 3)
	}
	if got := s.Level(d, 1); got < 100 || got > 102 {
		t.Errorf("level %d, want the limit of 100", got)
	}
	for range 500 {
		high.Add(d, 1, 3)
	}
	if got := s.Level(d, 1); got < 1000 || got > 1002 {
		t.Errorf("level %d, want the limit of 1000", got)
	}
}
