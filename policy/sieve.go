package policy

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"net/netip"
	"slices"
)

// sieve says of most keys without an override, by one word of memory, that they have
// none. What it lets through is looked up: a trie or map of 100,000 does not stay in the
// nearer caches, and each look at it would cost several misses (BenchmarkOverrides).
// Immutable once filled. Whom it lets through is no secret, and costs only time.
type sieve struct {
	words []uint64
	seed  maphash.Seed

	lengths4, lengths6 []uint8 // of prefixes, in no order
	full               bool    // it would take longer than the lookup
}

const (
	// sieveBits for each key, four of which are set in one word: one in 190 others passes (TestSieve).
	sieveBits = 16

	// maxLengths is how many lengths of prefixes are tried.
	maxLengths = 4
)

func newSieve(keys int) *sieve {
	return &sieve{words: make([]uint64, keys*sieveBits/64+1), seed: maphash.MakeSeed()}
}

func (s *sieve) place(h uint64) (word *uint64, mask uint64) {
	i, _ := bits.Mul64(h, uint64(len(s.words)))
	return &s.words[i], 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63) | 1<<(h>>18&63)
}

func (s *sieve) add(h uint64) {
	word, mask := s.place(h)
	*word |= mask
}

func (s *sieve) has(h uint64) bool {
	word, mask := s.place(h)
	return *word&mask == mask
}

func (s *sieve) addPrefix(p netip.Prefix) {
	lengths := &s.lengths6
	if p.Addr().Is4() {
		lengths = &s.lengths4
	}
	n := uint8(p.Bits())
	if !slices.Contains(*lengths, n) {
		*lengths = append(*lengths, n)
		s.full = s.full || len(*lengths) > maxLengths
	}
	s.add(s.hashPrefix(p.Addr(), n))
}

// hasAddr reports whether a prefix that contains addr may have been added.
func (s *sieve) hasAddr(addr netip.Addr) bool {
	lengths := s.lengths6
	if addr.Is4() {
		lengths = s.lengths4
	}
	if s.full {
		return true
	}
	for _, n := range lengths {
		if s.has(s.hashPrefix(addr, n)) {
			return true
		}
	}
	return false
}

// hashPrefix hashes the first n bits of an address.
func (s *sieve) hashPrefix(addr netip.Addr, n uint8) uint64 {
	if addr.Is4() {
		b := addr.As4()
		return mix(uint64(binary.BigEndian.Uint32(b[:])&^(1<<(32-n)-1)) | uint64(n)<<32)
	}
	b := addr.As16()
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	if n <= 64 {
		return mix(hi&^(1<<(64-n)-1) + uint64(n))
	}
	return mix(mix(hi) ^ lo&^(1<<(128-n)-1) + uint64(n))
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom
// Number Generators", 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
