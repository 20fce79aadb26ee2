package sketch

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// noise feeds a sketch with one-shot keys that arrive as a Poisson process.
type noise struct {
	s    *Leaky
	rng  *rand.Rand
	rate float64 // keys per tick, ρ·cells/(d·T)
	at   float64
	now  uint64
}

// unit is T of the tests in ticks: fine enough for time to count as
// continuous.
const unit = 1 << 16

func newNoise(t *testing.T, blocks int, rho float64, seed uint64) *noise {
	n := &noise{s: newLeaky(t, blocks, noLimit), rng: rand.New(rand.NewPCG(seed, math.Float64bits(rho))), at: 1 << 30}
	n.rate = rho * float64(len(n.s.blocks)*cellsPerBlock) / Depth / unit
	return n
}

// run lets the given number of T pass.
func (n *noise) run(units float64) {
	end := n.at + units*unit
	for n.at < end {
		n.at += n.rng.ExpFloat64() / n.rate
		n.now = uint64(n.at)
		n.s.Add(randomDigest(n.rng), n.now, unit)
	}
}

// decay is the exponent θ of a bound on the noise that a key meets: in units
// of T, P(S > x) <= e^{-3θx}.
//
// Keys arrive in a block as a Poisson process of rate Λ = 8ρ/3 per T, each to
// a random subset. Reversed in time, the level of cell i is the supremum over
// s of X_i(s) = A_i(s) - s, with A_i(s) the arrivals of the last s [Lindley],
// and S > x means that X_i exceeds x at some time for each of the key's cells
// i. Freeze each X_i when it first does. While the cells of M are not frozen,
// exp(θ·ΣX) grows at rate
//
//	g_M(θ) = Λ·(E[e^{θ·|subset ∩ M|}] - 1) - θ·|M|
//
// so if g_M(θ) <= 0 for all M within the key's cells it is a supermartingale
// that starts at 1 and ends at e^{3θx} or more on the event. g_M is convex, 0
// at 0 and falls there if ρ < 1; θ is the least positive root over all M. For
// one cell that is Lundberg's ρ(e^θ - 1) = θ.
func decay(rho float64) float64 {
	least := math.Inf(1)
	for m := 1; m < 1<<cellsPerBlock; m++ {
		if size := bits.OnesCount(uint(m)); size <= Depth {
			least = min(least, rootOf(rho, uint(m), size))
		}
	}
	return least
}

func rootOf(rho float64, m uint, size int) float64 {
	var overlap [Depth + 1]float64 // probabilities
	for i := range subsets {
		overlap[bits.OnesCount(m&subsetMask(i))] += 1.0 / float64(len(subsets))
	}
	g := func(theta float64) float64 {
		mean := 0.0
		for j, p := range overlap {
			mean += p * math.Exp(theta*float64(j))
		}
		return cellsPerBlock*rho/Depth*(mean-1) - theta*float64(size)
	}
	lo, hi := 1e-9, 20.0
	for range 60 {
		if mid := (lo + hi) / 2; g(mid) <= 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

func subsetMask(i int) uint {
	p := subsets[i]
	return 1<<(p&7) | 1<<(p>>3&7) | 1<<(p>>6&7)
}

// TestNoiseTail: what one-shot keys add to the estimate of a stranger stays
// within theory, at several loads and sizes.
func TestNoiseTail(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{1 << 6, 1 << 9, 1 << 11} {
		for _, rho := range []float64{0.1, 0.25, 0.5} {
			t.Run(fmt.Sprintf("blocks=%d/rho=%v", blocks, rho), func(t *testing.T) {
				t.Parallel()
				checkNoiseTail(t, blocks, rho)
			})
		}
	}
}

func checkNoiseTail(t *testing.T, blocks int, rho float64) {
	const pause = 15 // T between two looks, several times the time of a busy period
	looks := max(4, 8<<10/blocks)
	n := newNoise(t, blocks, rho, uint64(blocks))
	n.run(40)
	xs := []float64{0, 0.25, 0.5, 1, 1.5, 2, 3}
	over := make([]int, len(xs))
	single := 0 // looks at which one cell is above 1
	for range looks {
		n.run(pause)
		for b := range uint64(blocks) { // one stranger for each block
			pos := b<<32/uint64(blocks) + 1<<32/uint64(2*blocks)
			d := Digest{Pos: pos<<32 | n.rng.Uint64N(64)}
			for i, x := range xs {
				if float64(n.s.Level(d, n.now)) > x*unit {
					over[i]++
				}
			}
			if level(&n.s.block(d)[n.rng.IntN(cellsPerBlock)], n.now) > unit {
				single++
			}
		}
	}
	total := float64(looks * blocks)
	theta := decay(rho)
	for i, x := range xs {
		bound := math.Exp(-3 * theta * x)
		if x == 0 {
			bound = rho // all three busy, so one is
		}
		slack := 5*math.Sqrt(bound*(1-bound)/total) + 5/total
		if got := float64(over[i]) / total; got > bound+slack {
			t.Errorf("P(noise > %vT) = %.5f, want at most %.5f + %.5f", x, got, bound, slack)
		}
	}
	// The least of three cells is far below a single one: else rows are one.
	one := math.Exp(-rootOf(rho, 1, 1))
	if got := float64(single) / total; got > one+5*math.Sqrt(one/total) {
		t.Errorf("P(one cell > T) = %.5f, want at most %.5f", got, one)
	}
	if rho == 0.5 && (over[0] == 0 || single < 3*over[3]) {
		t.Errorf("at load %v: %d strangers meet noise, %d single cells and %d estimates above T: this run shows nothing", rho, over[0], single, over[3])
	}
}
