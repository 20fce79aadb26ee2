package sketch

import "sync/atomic"

// TakeOver charges each cell with the highest level that any of its keys can have in from,
// a sketch of any size, at fromNow by its clock, which is now by that of s. convert
// converts the level, and must not round down. Both may be in use. A charge to from after
// TakeOver was called, and then to s as well, counts here at least once.
func (s *Leaky) TakeOver(from *Leaky, fromNow, now uint64, convert func(level uint64) uint64) {
	s.eachOf(from, fromNow, func(cell *uint64, level uint64) {
		s.raise(cell, now, min(convert(level), s.limit))
	})
}

// Merge is TakeOver by maximum, for a sketch of the same stream up to some time.
func (s *Leaky) Merge(from *Leaky, fromNow, now uint64, convert func(level uint64) uint64) {
	s.eachOf(from, fromNow, func(cell *uint64, level uint64) {
		lift(cell, now+min(convert(level), s.limit))
	})
}

// Fill raises all cells to a level.
func (s *Leaky) Fill(now, level uint64) {
	for i := range s.blocks {
		for j := range s.blocks[i] {
			lift(&s.blocks[i][j], now+min(level, s.limit))
		}
	}
}

// SameCells reports whether both are sketches over the same cells.
func (s *Leaky) SameCells(other *Leaky) bool {
	return len(s.blocks) == len(other.blocks) && (len(s.blocks) == 0 || &s.blocks[0] == &other.blocks[0])
}

// eachOf calls f for each cell of s with the highest level that one of its keys can have in
// from, unless that is 0. The place of a cell in its block does not depend on the size, so
// that is the highest level in the same place of those blocks that share keys with this
// one.
func (s *Leaky) eachOf(from *Leaky, fromNow uint64, f func(cell *uint64, level uint64)) {
	n, m := uint64(len(s.blocks)), uint64(len(from.blocks))
	for i := range n {
		lo, hi := (i<<32+n-1)/n, ((i+1)<<32+n-1)/n // of the upper half of Pos: see block
		first, last := lo*m>>32, (hi-1)*m>>32
		for j := range s.blocks[i] {
			highest := uint64(0)
			for b := first; b <= last; b++ {
				highest = max(highest, level(&from.blocks[b][j], fromNow))
			}
			if highest > 0 {
				f(&s.blocks[i][j], highest)
			}
		}
	}
}

// lift sets cell = max(cell, to).
func lift(cell *uint64, to uint64) {
	for c := atomic.LoadUint64(cell); c < to; c = atomic.LoadUint64(cell) {
		if atomic.CompareAndSwapUint64(cell, c, to) {
			return
		}
	}
}
