package sketch

import (
	"encoding/binary"
	"math"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/internal/frames"
)

const (
	// statePiece is the size at which a piece of the output ends.
	statePiece = 64 << 10

	// maxStored keeps sums of a level that was read and a clock reading within 64 bits.
	maxStored = 1 << 62
)

// AppendState appends the cells from the i-th on whose level at now is above zero, about 64
// KiB of them, and returns the cell to continue from, which is 0 after the last one. For
// each cell it writes the number of cells skipped since the previous one, and its level.
func (s *Leaky) AppendState(dst []byte, i int, now uint64) (state []byte, next int) {
	dst = binary.AppendUvarint(dst, now)
	for last := 0; i < len(s.blocks)*cellsPerBlock; i++ {
		c := atomic.LoadUint64(&s.blocks[i/cellsPerBlock][i%cellsPerBlock])
		if c <= now {
			continue
		}
		if len(dst) >= statePiece {
			return dst, i
		}
		dst = binary.AppendUvarint(dst, uint64(i-last))
		dst = binary.AppendUvarint(dst, c-now)
		last = i
	}
	return dst, 0
}

// RestoreState reads a piece of AppendState of a sketch of the same size, whose time
// continues.
func (s *Leaky) RestoreState(piece []byte) error {
	u := frames.Unpack(piece)
	now, i, n := u.Uvarint(), uint64(0), uint64(len(s.blocks)*cellsPerBlock)
	for u.More() {
		gap, level := u.Uvarint(), u.Uvarint()
		if gap >= n || i+gap >= n || level > maxStored || level > math.MaxUint64-now {
			u.Fail()
			break
		}
		i += gap
		cell := &s.blocks[i/cellsPerBlock][i%cellsPerBlock]
		*cell = max(*cell, now+level)
	}
	return u.Err("a sketch")
}
