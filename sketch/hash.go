package sketch

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/cespare/xxhash/v2"
	"github.com/dchest/siphash"
)

// Digest is the keyed hash of a client key. Pos addresses cells, bits and table sets; ID
// distinguishes two keys in one table set. For addresses both are one hash, which for IPv4
// addresses and IPv6 prefixes of up to 64 bits is a bijection, so that no two of them share
// a bucket. The exception is fe:dcba::/32, which is reserved: a prefix in it shares a
// digest with another one, which depends on the secret. For byte keys they are the halves
// of a 128-bit keyed PRF.
type Digest struct {
	Pos uint64
	ID  uint64
}

// Secret is the key material that all digests of a process, or of a cluster
// whose nodes must agree on digests, derive from.
type Secret [32]byte

// A Hasher computes the digests of one rule. It is immutable after
// [NewHasher] and safe for concurrent use. The zero value hashes without a
// secret and must not see keys from clients.
//
// Addresses go through xxhash64 with their words masked by secrets: seeded
// xxhash64 has pairs of long inputs that collide for every seed, which the
// mask destroys, and inputs of up to 8 bytes cannot collide at all. Keys whose
// bytes a client writes go through SipHash-2-4, a keyed PRF
// [Aumasson and Bernstein 2012].
type Hasher struct {
	mask4, mask6   uint64 // one-word addresses; mask4 is mask6 ^ ipv4Realm
	maskHi, maskLo uint64 // two-word addresses
	sip0, sip1     uint64 // first part of a byte key
	chain0, chain1 uint64 // further parts
}

// ipv4Realm is the place of the IPv4 addresses among the IPv6 prefixes of up to 64 bits:
// fe:dcba::/32, which is reserved and routed nowhere. A header may still name such a
// prefix; Word6 then uses another one in its place.
const ipv4Realm = 0x00fedcba << 32

// NewHasher derives the keys for the rule that label names.
func NewHasher(secret Secret, label string) (Hasher, error) {
	raw, err := hkdf.Key(sha256.New, secret[:], nil, "fastlimit digest v1 "+label, 64)
	if err != nil {
		return Hasher{}, fmt.Errorf("fastlimit/sketch: derive digest keys: %w", err)
	}
	w := func(i int) uint64 { return binary.LittleEndian.Uint64(raw[8*i:]) }
	return Hasher{
		mask4: w(1) ^ ipv4Realm, mask6: w(1), maskHi: w(2), maskLo: w(3),
		sip0: w(4), sip1: w(5), chain0: w(6), chain1: w(7),
	}, nil
}

// Word4 returns the digest of an IPv4 address or prefix, given as its 32 bits.
func (h *Hasher) Word4(addr uint32) Digest {
	return sum8(uint64(addr) ^ h.mask4)
}

// Word6 returns the digest of an IPv6 prefix of at most 64 bits, given as its upper half.
func (h *Hasher) Word6(hi uint64) Digest {
	if hi>>32 == ipv4Realm>>32 {
		hi = hi*prime1 ^ h.maskHi // any of 2^64, unknown to outsiders
	}
	id := xxh64(hi ^ h.mask6)
	return Digest{Pos: id, ID: id}
}

// Pair6 returns the digest of an IPv6 prefix longer than 64 bits.
func (h *Hasher) Pair6(hi, lo uint64) Digest {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], hi^h.maskHi)
	binary.LittleEndian.PutUint64(b[8:], lo^h.maskLo)
	id := xxhash.Sum64(b[:])
	return Digest{Pos: id, ID: id}
}

// Bytes returns the digest of a byte key.
func (h *Hasher) Bytes(part []byte) Digest {
	lo, hi := siphash.Hash128(h.sip0, h.sip1, part)
	return Digest{Pos: lo, ID: hi}
}

// Append returns the digest of a composite key whose parts so far have digest d and whose
// next part is part. Each part is hashed as a separate message, under a key that depends on
// all before, so ("a","bc") is not ("ab","c").
func (h *Hasher) Append(d Digest, part []byte) Digest {
	lo, hi := siphash.Hash128(h.chain0^d.Pos, h.chain1^d.ID, part)
	return Digest{Pos: lo, ID: hi}
}

func sum8(v uint64) Digest {
	id := xxh64(v)
	return Digest{Pos: id, ID: id}
}

// Primes of XXH64.
const (
	prime1 = 0x9e3779b185ebca87
	prime2 = 0xc2b2ae3d27d4eb4f
	prime3 = 0x165667b19e3779f9
	prime4 = 0x85ebca77c2b2ae63
	prime5 = 0x27d4eb2f165667c5
)

// xxh64 is xxhash.Sum64 of the eight bytes of v, little endian, unrolled. Every request
// hashes one word, and the library passes it through memory, a stall of 3.5 ns
// (BenchmarkDigest). TestOneWordIsXXHash checks that the two agree.
func xxh64(v uint64) uint64 {
	h := prime5 + 8 ^ bits.RotateLeft64(v*prime2, 31)*prime1
	h = bits.RotateLeft64(h, 27)*prime1 + prime4
	h = (h ^ h>>33) * prime2
	h = (h ^ h>>29) * prime3
	return h ^ h>>32
}
