package sketch

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/bits-and-blooms/bloom/v3"
)

// bitsPerKey is k, the bits that a key sets in its word: three 6-bit fields of the digest.
// With one-word blocks and 4 bits per key, k = 2, 3 and 4 take 16.0, 15.7 and 17.4 % of new
// keys for known ones; at twice that load 40, 47 and 56 %, at half of it 5.3, 3.8 and 3.4
// %.
const bitsPerKey = 3

// generations is the number of filters that are interleaved in one [Blooms].
const generations = 2

// Blooms are the two generations of the first-seen filter. The words of a key in both
// generations are adjacent, so that one cache line serves both. All methods are safe for
// concurrent use; a mark made in a generation while it is reset may or may not survive. The
// zero value is not usable: call [NewBlooms].
type Blooms struct {
	words []uint64 // word i of generation g is words[2i+g]; atomic
	n     uint64   // words in a generation
}

// NewBlooms returns two empty generations of n 64-bit words each.
func NewBlooms(n int) (*Blooms, error) {
	if n < 1 || uint64(n) > 1<<32 {
		return nil, fmt.Errorf("fastlimit/sketch: %d filter words: want 1 to 2^32", n)
	}
	return &Blooms{words: Memory[uint64](generations * n), n: uint64(n)}, nil
}

// BloomCapacity returns the number of distinct keys up to which a generation of n words
// takes less than a sixth of new keys for known ones: by the library's sizing of a standard
// filter, minus the 7 % that one-word blocks cost at this rate.
func BloomCapacity(n int) int {
	const keys = 1 << 20
	bits, _ := bloom.EstimateParameters(keys, 1.0/6)
	return int(float64(n) * 64 / (float64(bits) / keys) * 0.93)
}

// Has reports whether generation g may hold d; false is certain.
func (f *Blooms) Has(g uint64, d Digest) bool {
	m := mask(d)
	return atomic.LoadUint64(f.word(g, d))&m == m
}

// Mark marks d in generation g and reports whether it was new there: of any
// number of concurrent calls for one digest exactly one returns true, and
// none does if the generation already held it, or held other keys that cover
// its bits.
func (f *Blooms) Mark(g uint64, d Digest) bool {
	return mark(f.word(g, d), mask(d))
}

// MarkNew is Mark(g, d) && !Has(g+1, d), in this order, finding the place of d
// once.
func (f *Blooms) MarkNew(g uint64, d Digest) bool {
	m, i := mask(d), f.pair(d)
	return mark(&f.words[i|g&1], m) && atomic.LoadUint64(&f.words[i|g&1^1])&m != m
}

// Reset forgets all marks of generation g. Words that are empty already are
// only read.
func (f *Blooms) Reset(g uint64) {
	for i := int(g & 1); i < len(f.words); i += generations {
		if atomic.LoadUint64(&f.words[i]) != 0 {
			atomic.StoreUint64(&f.words[i], 0)
		}
	}
}

// Fill marks everything in generation g.
func (f *Blooms) Fill(g uint64) {
	for i := int(g & 1); i < len(f.words); i += generations {
		atomic.StoreUint64(&f.words[i], math.MaxUint64)
	}
}

// Merge marks in generation g everything that from has in either, and returns false,
// without marking anything, if they differ in size.
func (f *Blooms) Merge(g uint64, from *Blooms) bool {
	if f.n != from.n {
		return false
	}
	for i := 0; i < len(f.words); i += generations {
		m := atomic.LoadUint64(&from.words[i]) | atomic.LoadUint64(&from.words[i+1])
		mark(&f.words[i|int(g&1)], m)
	}
	return true
}

// Population estimates the number of distinct keys in generation g, by the library's
// estimator over a copy of at most sample words spread evenly. For a saturated filter it
// returns math.MaxUint32.
func (f *Blooms) Population(g uint64, sample int) uint32 {
	sample = max(1, min(sample, int(f.n)))
	step := int(f.n) / sample
	quiet := make([]uint64, sample)
	full := true
	for i := range quiet {
		quiet[i] = atomic.LoadUint64(&f.words[generations*i*step+int(g&1)])
		full = full && quiet[i] == math.MaxUint64
	}
	if full {
		return math.MaxUint32
	}
	part := bloom.From(quiet, bitsPerKey).ApproximatedSize()
	return uint32(min(float64(part)*float64(f.n)/float64(sample), math.MaxUint32))
}

// pair returns the index of the word of d in generation 0; that in generation 1 follows.
func (f *Blooms) pair(d Digest) uint64 { return (d.ID >> 32) * f.n >> 32 << 1 }

func (f *Blooms) word(g uint64, d Digest) *uint64 { return &f.words[f.pair(d)|g&1] }

// mark sets the bits m and reports whether one of them was new. A known client
// must cost no write: its line then stays shared by all cores.
func mark(w *uint64, m uint64) bool {
	return atomic.LoadUint64(w)&m != m && atomic.OrUint64(w, m)&m != m
}

func mask(d Digest) uint64 {
	id := d.ID
	return 1<<(id&63) | 1<<(id>>6&63) | 1<<(id>>12&63)
}
