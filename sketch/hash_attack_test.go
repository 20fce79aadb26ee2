package sketch

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// inverse of an odd number modulo 2^64: Newton's iteration doubles the right
// bits each time.
func inverse(a uint64) uint64 {
	x := a
	for range 6 {
		x *= 2 - a*x
	}
	return x
}

// round is that of XXH64, r(k) = rol31(k·P2)·P1.
func round(k uint64) uint64 { return bits.RotateLeft64(k*prime2, 31) * prime1 }

func unround(r uint64) uint64 {
	return bits.RotateLeft64(r*inverse(prime1), -31) * inverse(prime2)
}

// partner returns the pair that collides with (k1, k2) under xxhash64 of 16
// bytes for every seed. The hash goes on from h by
//
//	h = rol27(h ^ r(k1))·P1 + P4
//	h = rol27(h ^ r(k2))·P1 + P4
//
// Bit 36 of r(k1) becomes bit 63 of the first h, and only that: the product
// with an odd number and the sum keep a lone top bit alone. Bit 63 of r(k2)
// cancels it.
func partner(k1, k2 uint64) (uint64, uint64) {
	return unround(round(k1) ^ 1<<36), unround(round(k2) ^ 1<<63)
}

func pairBytes(k1, k2 uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, k1), k2)
}

// TestXXHashPartnersDoNotCollide: an attacker who can compute partners gains
// nothing, while the plain and the seeded hash fall to them.
func TestXXHashPartnersDoNotCollide(t *testing.T) {
	t.Parallel()
	const pairs = 20_000
	rng := rand.New(rand.NewPCG(1, 1))
	h := newHasher(t, testSecret(), "per-ip")
	collisions := map[string]int{}
	count := func(name string, equal bool) {
		if equal {
			collisions[name]++
		}
	}
	var seeded xxhash.Digest
	withSeed := func(seed uint64, b []byte) uint64 {
		seeded.ResetWithSeed(seed)
		seeded.Write(b)
		return seeded.Sum64()
	}
	for range pairs {
		k1, k2 := rng.Uint64(), rng.Uint64()
		p1, p2 := partner(k1, k2)
		key, twin := pairBytes(k1, k2), pairBytes(p1, p2)
		seed := rng.Uint64()
		count("plain xxhash", xxhash.Sum64(key) == xxhash.Sum64(twin))
		count("seeded xxhash", withSeed(seed, key) == withSeed(seed, twin))
		count("Pair6", h.Pair6(k1, k2).ID == h.Pair6(p1, p2).ID)
		count("Pair6, half the ID", h.Pair6(k1, k2).ID>>32 == h.Pair6(p1, p2).ID>>32)
		a, b := h.Bytes(key), h.Bytes(twin)
		count("Bytes", a.ID == b.ID || a.Pos == b.Pos)
	}
	for name, want := range map[string]int{
		"plain xxhash": pairs, "seeded xxhash": pairs, "Pair6": 0, "Pair6, half the ID": 0, "Bytes": 0,
	} {
		if got := collisions[name]; got != want {
			t.Errorf("%s: %d of %d partners collide, want %d", name, got, pairs, want)
		}
	}
}

// TestZeroHasherFallsToPartners shows why the zero Hasher must not see keys
// from clients: its masks are zero.
func TestZeroHasherFallsToPartners(t *testing.T) {
	t.Parallel()
	var h Hasher
	p1, p2 := partner(1, 2)
	if h.Pair6(1, 2) != h.Pair6(p1, p2) {
		t.Error("the partner of (1, 2) does not collide without a mask: the family is wrong")
	}
}
