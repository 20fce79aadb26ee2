package sketch

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/bits-and-blooms/bloom/v3"
)

// bitsPerKey is k, the bits a key sets in its word: four 6-bit fields of the
// digest. One-word blocks gain nothing from more.
const bitsPerKey = 4

// Bloom is one generation of the first-seen filter. Mark and Has are safe for
// concurrent use with everything; Reset runs beside them too, and a mark made
// meanwhile may or may not survive. The zero value is not usable: call
// [NewBloom].
type Bloom struct {
	filter *bloom.BloomFilter // owns words; library calls only on copies
	words  []uint64           // read and written atomically
}

// NewBloom returns a filter of n 64-bit words.
func NewBloom(n int) (*Bloom, error) {
	if n < 1 || uint64(n) > 1<<32 {
		return nil, fmt.Errorf("fastlimit/sketch: %d filter words: want 1 to 2^32", n)
	}
	words := make([]uint64, n)
	return &Bloom{filter: bloom.From(words, bitsPerKey), words: words}, nil
}

// Bytes is the memory of the filter.
func (f *Bloom) Bytes() int { return len(f.words) * 8 }

// Touch writes to every page, like [Leaky.Touch].
func (f *Bloom) Touch() {
	for i := 0; i < len(f.words); i += 4096 / 8 {
		f.words[i] = 0
	}
}

// Capacity is the number of distinct keys up to which less than 2 % of new
// keys are taken for known ones, by the library's sizing of a standard filter
// and the 10 % that one-word blocks cost at this rate.
func (f *Bloom) Capacity() int {
	perKey, _ := bloom.EstimateParameters(1<<20, 0.02)
	return int(float64(f.filter.Cap()) / (float64(perKey) / (1 << 20)) * 0.9)
}

// Has reports whether d may have been marked; false is certain.
func (f *Bloom) Has(d Digest) bool {
	m := mask(d)
	return atomic.LoadUint64(f.word(d))&m == m
}

// Mark marks d and reports whether it was new: of any number of concurrent
// calls for one digest exactly one returns true, and none does if the filter
// already held it, or held other keys that cover its bits.
func (f *Bloom) Mark(d Digest) bool {
	m, w := mask(d), f.word(d)
	// A known client must cost no write: its line then stays shared by all
	// cores.
	if atomic.LoadUint64(w)&m == m {
		return false
	}
	return atomic.OrUint64(w, m)&m != m
}

// Reset forgets all marks. Words that are empty already are only read.
func (f *Bloom) Reset() {
	for i := range f.words {
		if atomic.LoadUint64(&f.words[i]) != 0 {
			atomic.StoreUint64(&f.words[i], 0)
		}
	}
}

// Population estimates the number of distinct marked keys from a copy of at
// most sample words spread evenly. A saturated filter returns math.MaxUint32.
func (f *Bloom) Population(sample int) uint32 {
	sample = max(1, min(sample, len(f.words)))
	step := len(f.words) / sample
	quiet := make([]uint64, sample)
	full := true
	for i := range quiet {
		quiet[i] = atomic.LoadUint64(&f.words[i*step])
		full = full && quiet[i] == math.MaxUint64
	}
	if full {
		return math.MaxUint32
	}
	part := bloom.From(quiet, bitsPerKey).ApproximatedSize()
	return uint32(min(float64(part)*float64(len(f.words))/float64(sample), math.MaxUint32))
}

func (f *Bloom) word(d Digest) *uint64 {
	return &f.words[(d.ID>>32)*uint64(len(f.words))>>32]
}

func mask(d Digest) uint64 {
	id := d.ID
	return 1<<(id&63) | 1<<(id>>6&63) | 1<<(id>>12&63) | 1<<(id>>18&63)
}
