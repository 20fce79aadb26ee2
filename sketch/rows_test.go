package sketch

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// An indexing maps the position of a key to its block and, as a bit set, to
// the cells within it. Rows that lie apart are one block of rows·width cells.
type indexing func(pos uint64) (block int, cells uint64)

const indexBlocks = 1 << 4

// ours reads off a sketch where it charges a key.
func ours(tb testing.TB) indexing {
	s := newLeaky(tb, indexBlocks, noLimit)
	return func(pos uint64) (block int, cells uint64) {
		s.Add(Digest{Pos: pos}, 0, 1)
		for b := range s.blocks {
			for c := range s.blocks[b] {
				if s.blocks[b][c] != 0 {
					block, cells = b, cells|1<<c
					s.blocks[b][c] = 0
				}
			}
		}
		return block, cells
	}
}

// badIndexings look like d = 3 rows and are not.
var badIndexings = map[string]indexing{
	// ristretto's count-min sketch since 2019: the rows differ by a constant
	// flip, so keys that share one share all.
	"(h ^ seed) & mask within the block": func(pos uint64) (int, uint64) {
		var cells uint64
		for _, seed := range []uint64{0x1, 0x6, 0x4} {
			cells |= 1 << ((pos ^ seed) & 7)
		}
		return int(pos >> 32 * indexBlocks >> 32), cells
	},
	"one row of the right width": func(pos uint64) (int, uint64) {
		return int(pos >> 32 * indexBlocks >> 32), 0b111 << ((pos & 7) % 6)
	},
	"subset from the bits of the block": func(pos uint64) (int, uint64) {
		return int(pos >> 32 * indexBlocks >> 32), uint64(subsetMask(int(pos >> 58)))
	},
	"only some subsets": func(pos uint64) (int, uint64) {
		return int(pos >> 32 * indexBlocks >> 32), uint64(subsetMask(int(pos & 31)))
	},
	"blocks not all used": func(pos uint64) (int, uint64) {
		return int(pos >> 32 * indexBlocks >> 32 &^ 1), uint64(subsetMask(int(pos & 63)))
	},
}

// checkIndexing tells what is wrong with an indexing, from random positions.
func checkIndexing(place indexing) error {
	const keys = 100_000
	rng := rand.New(rand.NewPCG(11, 12))
	load := make([]float64, indexBlocks*cellsPerBlock)
	joint := map[[2]uint64]float64{} // (block, subset)
	var shared [Depth + 1]float64
	last := map[int]uint64{} // of the last unpaired key in a block
	for range keys {
		b, cells := place(rng.Uint64())
		if bits.OnesCount64(cells) != Depth || cells >= 1<<cellsPerBlock {
			return fmt.Errorf("cells %b: want %d of %d", cells, Depth, cellsPerBlock)
		}
		joint[[2]uint64{uint64(b), cells}]++
		for c := range cellsPerBlock {
			load[b*cellsPerBlock+c] += float64(cells >> c & 1)
		}
		if other, ok := last[b]; ok {
			shared[bits.OnesCount64(cells&other)]++
			delete(last, b)
		} else {
			last[b] = cells
		}
	}
	if err := chiSquare("load of the cells", load, equal(len(load))); err != nil {
		return err
	}
	weights := subsetWeights()
	var got, want []float64
	for b := range uint64(indexBlocks) {
		for cells, w := range weights {
			got, want = append(got, joint[[2]uint64{b, cells}]), append(want, w/indexBlocks)
		}
	}
	if err := chiSquare("block and subset", got, want); err != nil {
		return err
	}
	return chiSquare("cells shared by two keys of one block", shared[:], overlaps(weights))
}

// subsetWeights is the probability of each of the 56 subsets: 1/64, and 2/64
// for eight of them.
func subsetWeights() map[uint64]float64 {
	w := map[uint64]float64{}
	for i := range subsets {
		w[uint64(subsetMask(i))] += 1.0 / float64(len(subsets))
	}
	return w
}

// overlaps is the distribution of the number of cells that two keys of one
// block share.
func overlaps(weights map[uint64]float64) []float64 {
	p := make([]float64, Depth+1)
	for a, wa := range weights {
		for b, wb := range weights {
			p[bits.OnesCount64(a&b)] += wa * wb
		}
	}
	return p
}

func equal(n int) []float64 {
	p := make([]float64, n)
	for i := range p {
		p[i] = 1 / float64(n)
	}
	return p
}

// chiSquare compares counts with probabilities. With m cells the statistic has
// mean m-1 and variance 2(m-1); 6σ happens by chance once in 10^6 and more.
func chiSquare(what string, got, p []float64) error {
	total, sum := 0.0, 0.0
	for _, g := range got {
		total += g
	}
	for i, g := range got {
		d := g - total*p[i]
		sum += d * d / (total * p[i])
	}
	df := float64(len(got) - 1)
	if limit := df + 6*math.Sqrt(2*df) + 6; sum > limit {
		return fmt.Errorf("%s: χ² = %.0f, want at most %.0f", what, sum, limit)
	}
	return nil
}

// TestRowsAreIndependent: the cells of a key say as little about those of
// another as the design claims, and the check can tell.
func TestRowsAreIndependent(t *testing.T) {
	t.Parallel()
	if err := checkIndexing(ours(t)); err != nil {
		t.Error(err)
	}
	for name, bad := range badIndexings {
		if err := checkIndexing(bad); err == nil {
			t.Errorf("%s: not noticed", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

// TestSubsets: two keys of one block share their cells as two random subsets
// of 3 of 8 do (hypergeometric), but for the eight that occur twice; every
// cell is in 3/8 of them. State files rely on which subset is which.
func TestSubsets(t *testing.T) {
	t.Parallel()
	sum := uint64(0)
	for _, s := range subsets {
		sum = sum*31 + uint64(s)
	}
	if sum != 0x4e6d472a1abd9f46 {
		t.Errorf("the subsets have changed (%#x): sketches of older state files would be read wrong", sum)
	}
	weights := subsetWeights()
	if len(weights) != 56 {
		t.Fatalf("%d subsets, want all 56", len(weights))
	}
	for c := range cellsPerBlock {
		load := 0.0
		for cells, w := range weights {
			load += w * float64(cells>>c&1)
		}
		if load != 3.0/8 {
			t.Errorf("cell %d is in %v of the subsets, want 3/8", c, load)
		}
	}
	hypergeometric := []float64{10.0 / 56, 30.0 / 56, 15.0 / 56, 1.0 / 56}
	for j, got := range overlaps(weights) {
		if math.Abs(got-hypergeometric[j]) > 0.005 {
			t.Errorf("P(%d cells shared) = %.4f, want about %.4f", j, got, hypergeometric[j])
		}
	}
	if got := overlaps(weights)[Depth]; got != 80.0/4096 {
		t.Errorf("P(all cells shared) = %v, want 1/51.2 as the package comment has it", got)
	}
}

// TestBlockLayout: a key's cells lie in one cache line, wherever the memory
// came from.
func TestBlockLayout(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 5, 7, 13, 64, 100, 511, 1 << 10, 1<<15 + 1} {
		s := newLeaky(t, n, noLimit)
		if a := uintptr(unsafe.Pointer(&s.blocks[0])); a%BlockBytes != 0 {
			t.Errorf("%d blocks begin at %#x, not at a cache line", n, a)
		}
		f, err := NewBlooms(n)
		if err != nil {
			t.Fatal(err)
		}
		// Both generations' words of a key are one pair.
		if a := uintptr(unsafe.Pointer(&f.words[0])); a%16 != 0 {
			t.Errorf("%d filter words begin at %#x: a pair lies across lines", n, a)
		}
		for range 100 {
			d := Digest{ID: rand.Uint64()}
			if a, b := uintptr(unsafe.Pointer(f.word(0, d))), uintptr(unsafe.Pointer(f.word(1, d))); a/64 != b/64 {
				t.Fatalf("words of a key at %#x and %#x: two lines", a, b)
			}
		}
	}
}
