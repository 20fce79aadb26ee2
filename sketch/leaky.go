package sketch

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

const (
	// Depth is d, the number of cells that a key is charged to.
	Depth = 3

	cellsPerBlock = 8 // of 8 bytes: one cache line

	// BlockBytes is the size of one block, the unit in which a sketch is
	// sized.
	BlockBytes = cellsPerBlock * 8
)

type block [cellsPerBlock]uint64

// A block must be one cache line for the layout argument of the package
// comment to hold.
var _ [0]struct{} = [unsafe.Sizeof(block{}) - 64]struct{}{}

// subsets are the 56 ways to choose 3 of 8 cells, three bits for each cell, and eight
// repeated ones to fill up the 64: the rotations of {0, 1, 3}, which have each cell in
// three of them, so that all cells bear the same load.
var subsets = func() (t [64]uint16) {
	n := 0
	for a := range uint16(cellsPerBlock) {
		for b := range a {
			for c := range b {
				t[n] = a | b<<3 | c<<6
				n++
			}
		}
	}
	for i := range uint16(cellsPerBlock) {
		t[n] = i | (i+1)&7<<3 | (i+3)&7<<6
		n++
	}
	return t
}()

// Leaky is a count-min sketch of leaky buckets. It is safe for concurrent
// use; no operation waits for another. The zero value is not usable: call
// [Leaky.Init].
//
// All times and costs are in ticks. now must come from one clock that does
// not go backwards by more than the reordering of concurrent callers; an
// older now can only raise the reported level.
type Leaky struct {
	blocks []block
	limit  uint64 // a cell at or above this level is not raised further
}

// Init makes s a sketch of n blocks of 8 cells. Call it before anything else.
// Cells stop rising at limit ticks: more would only make a past offender a
// suspect for longer. To keep the guarantee S >= level, limit must lie above
// every level that the exact tier lets a client reach.
func (s *Leaky) Init(n int, limit uint64) error {
	if n < 1 || uint64(n) > 1<<32 {
		return fmt.Errorf("fastlimit/sketch: %d blocks: want 1 to 2^32", n)
	}
	if limit == 0 {
		return fmt.Errorf("fastlimit/sketch: limit must be above 0")
	}
	s.blocks, s.limit = Memory[block](n), limit
	return nil
}

// Share returns a sketch over the same cells. There they stop rising at limit or at that of
// s, whichever is higher: a client that has a higher level by s must not be forgotten
// sooner.
func (s *Leaky) Share(limit uint64) Leaky {
	return Leaky{blocks: s.blocks, limit: max(s.limit, limit)}
}

// Add charges cost to the cells of d and returns the level S after it.
func (s *Leaky) Add(d Digest, now, cost uint64) uint64 {
	b := s.block(d)
	p := subsets[d.Pos&63]
	l := s.raise(&b[p&7], now, cost)
	l = min(l, s.raise(&b[p>>3&7], now, cost))
	return min(l, s.raise(&b[p>>6&7], now, cost))
}

// Charge is Add for a cost that is large or comes from elsewhere: it takes no
// cell above the limit.
func (s *Leaky) Charge(d Digest, now, cost uint64) {
	b := s.block(d)
	p := subsets[d.Pos&63]
	for _, i := range [Depth]uint16{p & 7, p >> 3 & 7, p >> 6 & 7} {
		s.fill(&b[i], now, min(cost, s.limit))
	}
}

// fill sets cell = min(max(cell, now) + cost, now + limit), and never lowers it.
func (s *Leaky) fill(cell *uint64, now, cost uint64) {
	for {
		c := atomic.LoadUint64(cell)
		to := min(max(c, now)+cost, now+s.limit)
		if to <= c || atomic.CompareAndSwapUint64(cell, c, to) {
			return
		}
	}
}

// Level returns S without charging anything.
func (s *Leaky) Level(d Digest, now uint64) uint64 {
	b := s.block(d)
	p := subsets[d.Pos&63]
	l := level(&b[p&7], now)
	l = min(l, level(&b[p>>3&7], now))
	return min(l, level(&b[p>>6&7], now))
}

// Busy returns the share of cells whose level is above zero, over up to sample blocks
// spread evenly, at least one. At load ρ an unsaturated cell is busy for a share ρ of the
// time.
func (s *Leaky) Busy(now uint64, sample int) float64 {
	sample = max(1, min(sample, len(s.blocks)))
	step := len(s.blocks) / sample
	busy := 0
	for i := range sample {
		b := &s.blocks[i*step]
		for j := range b {
			if atomic.LoadUint64(&b[j]) > now {
				busy++
			}
		}
	}
	return float64(busy) / float64(sample*cellsPerBlock)
}

// block picks the block by fastrange over the upper half of Pos; the subset
// comes from its lowest 6 bits, so the two are independent.
func (s *Leaky) block(d Digest) *block {
	return &s.blocks[(d.Pos>>32)*uint64(len(s.blocks))>>32]
}

// raise sets cell = max(cell, now) + cost, by a CAS that does not ask whether the cell is
// busy: a third are, and no processor foresees which (BenchmarkZipf: 5 % of a decision,
// BenchmarkDistinct: 6 %). A hit that another one overtakes adds to a busy cell by an XADD,
// which cannot fail, however many cores hit it. No hit is ever lost, unlike in a lock-free
// conservative update, where racing hits of one key overwrite each other.
func (s *Leaky) raise(cell *uint64, now, cost uint64) uint64 {
	for overtaken := false; ; overtaken = true {
		c := atomic.LoadUint64(cell)
		l := max(c, now) - now
		switch {
		case l >= s.limit:
			return l
		case overtaken && l > 0:
			return atomic.AddUint64(cell, cost) - now
		case atomic.CompareAndSwapUint64(cell, c, now+l+cost):
			return l + cost
		}
	}
}

func level(cell *uint64, now uint64) uint64 {
	c := atomic.LoadUint64(cell)
	if c <= now {
		return 0
	}
	return c - now
}
