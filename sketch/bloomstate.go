package sketch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/fastlimit/fastlimit/internal/frames"
)

// Copy returns a copy of generation g for the library to write: a filter over its words.
// Its bits are not where the library would look for a key.
func (f *Blooms) Copy(g uint64) *bloom.BloomFilter {
	words := make([]uint64, f.n)
	for i := range words {
		words[i] = atomic.LoadUint64(&f.words[generations*i+int(g&1)]) // 0 or 1
	}
	return bloom.From(words, bitsPerKey)
}

// Restore reads a generation that the library has written of a Copy with as many words. It
// allocates no memory for one of another size. f must not be in use yet.
func (f *Blooms) Restore(g uint64, r io.Reader) error {
	// Number of bits, k, and again the number of bits, as bloom and bitset write them.
	var head [24]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("%w: a filter", frames.ErrDamaged)
	}
	want := [3]uint64{f.n * 64, bitsPerKey, f.n * 64}
	for i, w := range want {
		if binary.BigEndian.Uint64(head[8*i:]) != w {
			return fmt.Errorf("%w: a filter of another size", frames.ErrDamaged)
		}
	}
	var saved bloom.BloomFilter
	if _, err := saved.ReadFrom(io.MultiReader(bytes.NewReader(head[:]), r)); err != nil {
		return fmt.Errorf("fastlimit/sketch: read a filter: %w", err)
	}
	for i, w := range saved.BitSet().Words() {
		atomic.StoreUint64(&f.words[generations*i+int(g&1)], w) // 0 or 1
	}
	return nil
}
