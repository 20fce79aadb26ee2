package policy

import (
	"math/bits"
	"unsafe"
)

// exact says which limit a client has, by the two halves of the digest of its key, which
// the limiter has made anyway: two clients with one digest share a bucket too. A lookup reads a word of
// the sieve, which says of most clients without an override that they have none, and of
// others one cache line, whether it holds 32 overrides or 100,000 (BenchmarkOverrides).
// Immutable once filled.
type exact struct {
	sieve []uint64
	lines []line
}

// line is one cache line of exact. A key that finds its own full is in the next with room.
type line struct {
	ids    [lineKeys]uint64
	limits [lineKeys]uint16 // 1 and up; 0: free
	passed bool             // keys whose line it is, or one before, are in the next
}

const (
	lineKeys = 6

	// linesFill is how many keys a line has on average: of six places, so that nine of
	// ten keys are in their own line (TestExactIsNear).
	linesFill = 4

	// sieveBits for each key, four of which are set in one word: one in 190 others passes (TestSieve).
	sieveBits = 16
)

var _ [0]struct{} = [unsafe.Sizeof(line{}) - 64]struct{}{}

func newExact(keys int) exact {
	return exact{sieve: newSieve(keys), lines: make([]line, keys/linesFill+1)}
}

func newSieve(keys int) []uint64 { return make([]uint64, keys*sieveBits/64+1) }

// sifted is the word for a hash in a sieve, and the bits that its key has set there.
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

// home is the line of a key.
func (x *exact) home(pos uint64) int {
	i, _ := bits.Mul64(pos, uint64(len(x.lines)))
	return int(i) // below len
}

// add enters a key that is not there yet. There are no more than newExact was told.
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

// may reports whether the key may have been added: it has, or it is one of few others.
func (x *exact) may(id uint64) bool { return sieveHas(x.sieve, id) }

// find returns the limit of a key, -1 if it was not added.
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
