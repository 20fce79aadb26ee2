package policy

import (
	"math/bits"
	"unsafe"
)

// exact maps clients to limits by the two halves of the digest of their keys, which the
// limiter has computed anyway: two clients with one digest share a bucket too. A lookup
// reads one word of the sieve, which rules out most clients that have no override. For the
// others it reads one cache line, whether there are 32 overrides or 100,000
// (BenchmarkOverrides). Immutable once filled.
type exact struct {
	sieve []uint64
	lines []line
}

// line is one cache line of exact. A key whose own line is full is in the next with room.
type line struct {
	ids    [lineKeys]uint64
	limits [lineKeys]uint16 // 1 and up; 0: free
	passed bool             // keys of this line, or of one before, are in the next
}

const (
	lineKeys = 6

	// linesFill is how many keys a line has on average, of six places, so that nine of ten
	// keys are in their own line (TestExactIsNear).
	linesFill = 4

	// sieveBits is the number of bits per key. A key sets four bits in one word: one in 190
	// others passes (TestSieve).
	sieveBits = 16
)

var _ [0]struct{} = [unsafe.Sizeof(line{}) - 64]struct{}{}

func newExact(keys int) exact {
	return exact{sieve: newSieve(keys), lines: make([]line, keys/linesFill+1)}
}

func newSieve(keys int) []uint64 { return make([]uint64, keys*sieveBits/64+1) }

// sifted returns the word for a hash in a sieve, and the bits that its key has set there.
func sifted(sieve []uint64, h uint64) (word *uint64, mask uint64) {
	i, _ := bits.Mul64(h, uint64(len(sieve)))
	return &sieve[i], 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63) | 1<<(h>>18&63)
}

func sieveAdd(sieve []uint64, h uint64) {
	word, mask := sifted(sieve, h)
	*word |= mask
}

func sieveHas(sieve []uint64, h uint64) bool {
	word, mask := sifted(sieve, h)
	return *word&mask == mask
}

// home returns the line of a key.
func (x *exact) home(pos uint64) int {
	i, _ := bits.Mul64(pos, uint64(len(x.lines)))
	return int(i) // below len
}

// add enters a key that is not there yet. There are at most as many as newExact was given.
func (x *exact) add(pos, id uint64, limit int) {
	sieveAdd(x.sieve, id)
	for at := x.home(pos); ; at = (at + 1) % len(x.lines) {
		l := &x.lines[at]
		for i := range l.limits {
			if l.limits[i] == 0 {
				l.ids[i], l.limits[i] = id, uint16(limit+1) // at most MaxTiers and one
				return
			}
		}
		l.passed = true
	}
}

// may reports whether the key may have been added. It is true for every key that was, and
// for a few others.
func (x *exact) may(id uint64) bool { return sieveHas(x.sieve, id) }

// find returns the limit of a key, or -1 if it was not added.
func (x *exact) find(pos, id uint64) int {
	for at := x.home(pos); ; at = (at + 1) % len(x.lines) {
		l := &x.lines[at]
		for i := range l.ids {
			if l.ids[i] == id && l.limits[i] != 0 {
				return int(l.limits[i]) - 1
			}
		}
		if !l.passed {
			return -1
		}
	}
}
