package policy

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
)

// wide maps prefixes with many clients to limits; single clients are in exact. A sieve
// rules out most addresses without a lookup in the trie, which costs several cache misses.
// Immutable once filled. The zero value is empty.
type wide struct {
	trie  trie[int] // nil if there are none
	sieve []uint64

	lengths4, lengths6 []uint8 // of prefixes, in no order
	full               bool    // to sieve would take longer than the lookup
}

// maxLengths is the maximum number of prefix lengths that are tried.
const maxLengths = 4

func (w *wide) empty() bool { return w == nil || w.trie == nil }

// add enters a prefix. most is the maximum number of prefixes.
func (w *wide) add(p netip.Prefix, limit, most int) {
	if w.trie == nil {
		w.trie, w.sieve = new(bart.Table[int]), newSieve(most)
	}
	w.trie.Insert(p, limit)
	lengths := &w.lengths6
	if p.Addr().Is4() {
		lengths = &w.lengths4
	}
	n := uint8(p.Bits())
	if !slices.Contains(*lengths, n) {
		*lengths = append(*lengths, n)
		w.full = w.full || len(*lengths) > maxLengths
	}
	sieveAdd(w.sieve, hashPrefix(p.Addr(), n))
}

// find returns the limit of the longest prefix that contains addr, and its length, or -1 if
// there is none.
func (w *wide) find(addr netip.Addr) (limit, length int) {
	if w.empty() || !w.may(addr) {
		return 0, -1
	}
	p, limit, ok := w.trie.LookupPrefixLPM(netip.PrefixFrom(addr, addr.BitLen()))
	if !ok {
		return 0, -1
	}
	return limit, p.Bits()
}

// may reports whether a prefix that contains addr may have been added.
func (w *wide) may(addr netip.Addr) bool {
	lengths := w.lengths6
	if addr.Is4() {
		lengths = w.lengths4
	}
	if w.full {
		return true
	}
	for _, n := range lengths {
		if sieveHas(w.sieve, hashPrefix(addr, n)) {
			return true
		}
	}
	return false
}

// hashPrefix hashes the first n bits of an address. Which addresses pass a sieve is not
// secret: passing only costs time.
func hashPrefix(addr netip.Addr, n uint8) uint64 {
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
