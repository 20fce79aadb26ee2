package sketch

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
)

func newHasher(tb testing.TB, secret Secret, label string) *Hasher {
	tb.Helper()
	h, err := NewHasher(secret, label)
	if err != nil {
		tb.Fatal(err)
	}
	return &h
}

// testSecret is 00 01 02 … 1f.
func testSecret() (s Secret) {
	for i := range s {
		s[i] = byte(i)
	}
	return s
}

// TestHasherGolden pins all digests for one secret: nodes of different
// versions compare digests, so a change needs a new version in the label of
// NewHasher. The derived keys were checked against an independent HKDF.
func TestHasherGolden(t *testing.T) {
	t.Parallel()
	h := newHasher(t, testSecret(), "per-ip")
	if want := (Hasher{
		mask4: 0x1f9c21ecadb29cc4, mask6: 0x1f62fd56adb29cc4, maskHi: 0x9829005ec0bf0caf, maskLo: 0x66af95c324ea531,
		sip0: 0xb75b4d1720f18aac, sip1: 0xc83cddce66cfa57c, chain0: 0x3ce85da39551e7ee, chain1: 0x6bcc8cd1ca147a3b,
	}); *h != want {
		t.Errorf("derived keys %#x, want %#x", *h, want)
	}
	const key16 = "k3y-0123456789ab"
	same := func(v uint64) Digest { return Digest{v, v} }
	for _, tt := range []struct {
		name      string
		got, want Digest
	}{
		{"Word4 0.0.0.0", h.Word4(0), same(0x2e2aa68583960401)},
		{"Word4 192.0.2.7", h.Word4(0xc0000207), same(0xd8ef47acbc77d2a9)},
		{"Word4 255.255.255.255", h.Word4(math.MaxUint32), same(0x047ce6b74142eccc)},
		{"Word6 ::", h.Word6(0), same(0xef531ca49a04ba3c)},
		{"Word6 2001:db8::", h.Word6(0x20010db800000000), same(0x2d86baefaa61442f)},
		{"Word6 all ones", h.Word6(math.MaxUint64), same(0x086dbe53e73dbb24)},
		{"Pair6 2001:db8::7", h.Pair6(0x20010db800000000, 7), same(0x28f29d2e3fb18590)},
		{"Bytes empty", h.Bytes(nil), Digest{0x297ff6457cd9b56c, 0xe58df2603afffed9}},
		{"Bytes 1", h.Bytes([]byte("a")), Digest{0xa1996437c6a196bc, 0xff158ca571ef1f10}},
		{"Bytes 16", h.Bytes([]byte(key16)), Digest{0x7fd4a420e82289bf, 0x87c4e7935d37e424}},
		{"Bytes 64", h.Bytes([]byte(key16 + key16 + key16 + key16)), Digest{0x8ae5474e18bdd090, 0x6a2cef1bd03249f2}},
		{"a, bc", h.Append(h.Bytes([]byte("a")), []byte("bc")), Digest{0xbe83ba65693f7be6, 0x4bdbaa3bc2b219af}},
		{"192.0.2.7, /login", h.Append(h.Word4(0xc0000207), []byte("/login")), Digest{0x5441f3024fb015f8, 0x95d8f7c83d563827}},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: digest %#x, want %#x", tt.name, tt.got, tt.want)
		}
	}
}

// TestOneWordIsXXHash holds the unrolled hash of one word to the library's.
func TestOneWordIsXXHash(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 8))
	for i := range 10_000 {
		v := rng.Uint64() >> (i % 64)
		if got, want := xxh64(v), xxhash.Sum64(binary.LittleEndian.AppendUint64(nil, v)); got != want {
			t.Fatalf("hash of %#x: %#x, the library says %#x", v, got, want)
		}
	}
}

// TestBytesIsSipHash128 holds byte keys to the reference vectors of
// SipHash-2-4 with 128-bit output (github.com/veorq/SipHash, vectors.h): key
// 00 … 0f, messages of 0, 1 and 15 bytes 00, 01, ….
func TestBytesIsSipHash128(t *testing.T) {
	t.Parallel()
	h := Hasher{sip0: 0x0706050403020100, sip1: 0x0f0e0d0c0b0a0908}
	secret := testSecret()
	for n, want := range map[int]Digest{
		0:  {0xe6a825ba047f81a3, 0x930255c71472f66d},
		1:  {0x44af996bd8c187da, 0x45fc229b11597634},
		15: {0x11a8b03399e99354, 0xd9c3cf970fec087e},
	} {
		if got := h.Bytes(secret[:n]); got != want {
			t.Errorf("message of %d bytes: %#x, want %#x", n, got, want)
		}
	}
}

// TestDigestsDifferByRuleAndSecret: no digest of one rule or secret says
// anything about another.
func TestDigestsDifferByRuleAndSecret(t *testing.T) {
	t.Parallel()
	other := testSecret()
	other[31] ^= 1
	hashers := []*Hasher{
		newHasher(t, testSecret(), "per-ip"),
		newHasher(t, testSecret(), "per-ip2"),
		newHasher(t, testSecret(), ""),
		newHasher(t, other, "per-ip"),
		newHasher(t, Secret{}, "per-ip"),
	}
	seen := map[Digest]string{}
	for i, h := range hashers {
		for name, d := range map[string]Digest{
			"Word4": h.Word4(7), "Word6": h.Word6(7), "Pair6": h.Pair6(7, 7), "Pair6 0": h.Pair6(0, 7),
			"Bytes": h.Bytes([]byte("7")), "Append": h.Append(h.Bytes(nil), []byte("7")),
		} {
			where := fmt.Sprintf("%s of hasher %d", name, i)
			if first, ok := seen[d]; ok {
				t.Errorf("%s = %s = %#x", where, first, d)
			}
			seen[d] = where
		}
	}
	if *newHasher(t, testSecret(), "x") != *newHasher(t, testSecret(), "x") {
		t.Error("one secret and label give two hashers")
	}
}

// TestAddressDigestsInjective: xxhash64 of 8 bytes is a bijection, so addresses
// share neither position nor ID.
func TestAddressDigestsInjective(t *testing.T) {
	t.Parallel()
	const n = 1 << 15
	h := newHasher(t, testSecret(), "per-ip")
	rng := rand.New(rand.NewPCG(1, 1))
	for name, digest := range map[string]func(i uint64) Digest{
		"Word4 in a row":      func(i uint64) Digest { return h.Word4(uint32(i)) },
		"Word4 strided":       func(i uint64) Digest { return h.Word4(uint32(i) << 15) },
		"Word6 in a row":      func(i uint64) Digest { return h.Word6(i) },
		"Word6 upper half":    func(i uint64) Digest { return h.Word6(i << 32) },
		"Word6 random":        func(i uint64) Digest { return h.Word6(rng.Uint64()&^0xfffff | i) },
		"Pair6 within a /64":  func(i uint64) Digest { return h.Pair6(0x20010db8<<32, i) },
		"Pair6 over networks": func(i uint64) Digest { return h.Pair6(i, 1) },
	} {
		ids, pos := make([]uint64, n), make([]uint64, n)
		for i := range ids {
			d := digest(uint64(i))
			ids[i], pos[i] = d.ID, d.Pos
		}
		slices.Sort(ids)
		slices.Sort(pos)
		if len(slices.Compact(ids)) != n || len(slices.Compact(pos)) != n {
			t.Errorf("%s: two of %d addresses share a digest", name, n)
		}
	}
}

// TestPartsAreFramed: no two ways to cut a text into parts have one digest.
func TestPartsAreFramed(t *testing.T) {
	t.Parallel()
	h := newHasher(t, testSecret(), "login")
	seen := map[Digest][]string{}
	for _, parts := range [][]string{
		{""},
		{"", ""},
		{"", "", ""},
		{"abc"},
		{"ab", "c"},
		{"a", "bc"},
		{"", "abc"},
		{"abc", ""},
		{"a", "b", "c"},
		{"a", "", "bc"},
		{"c", "ab"},
		{"bc", "a"},
		{"a\x00", "bc"},
		{"a", "\x00bc"},
		{"\x01a\x02bc"},
	} {
		d := h.Bytes([]byte(parts[0]))
		for _, part := range parts[1:] {
			d = h.Append(d, []byte(part))
		}
		if first, ok := seen[d]; ok {
			t.Errorf("%q and %q have one digest", first, parts)
		}
		seen[d] = parts
	}
	for i := range uint32(100) { // an address first, then text
		d := h.Append(h.Word4(i), []byte("abc"))
		if first, ok := seen[d]; ok {
			t.Errorf("%q and address %d, \"abc\" have one digest", first, i)
		}
		seen[d] = []string{"address", "abc"}
	}
}

// TestAvalanche: every input bit flips every output bit in half of the cases.
func TestAvalanche(t *testing.T) {
	t.Parallel()
	h := newHasher(t, testSecret(), "per-ip")
	buf := make([]byte, 16)
	for _, tt := range []struct {
		name string
		bits int
		hash func(hi, lo uint64) Digest
	}{
		{"Word4", 32, func(_, lo uint64) Digest { return h.Word4(uint32(lo)) }},
		{"Word6", 64, func(_, lo uint64) Digest { return h.Word6(lo) }},
		{"Pair6", 128, h.Pair6},
		{"Bytes", 128, func(hi, lo uint64) Digest {
			for i := range 8 {
				buf[i], buf[8+i] = byte(lo>>(8*i)), byte(hi>>(8*i))
			}
			return h.Bytes(buf)
		}},
		{"Append", 64, func(_, lo uint64) Digest { return h.Append(Digest{lo, lo}, buf[:1]) }},
	} {
		const samples = 1000
		rng := rand.New(rand.NewPCG(2, 2))
		for bit := range tt.bits {
			var flips [128]int
			for range samples {
				hi, lo := rng.Uint64(), rng.Uint64()
				a := tt.hash(hi, lo)
				if bit < 64 {
					lo ^= 1 << bit
				} else {
					hi ^= 1 << (bit - 64)
				}
				b := tt.hash(hi, lo)
				for i, diff := range []uint64{a.Pos ^ b.Pos, a.ID ^ b.ID} {
					for ; diff != 0; diff &= diff - 1 {
						flips[64*i+bits.TrailingZeros64(diff)]++
					}
				}
			}
			for out, n := range flips {
				// 50,000 such counts in all: 6.5σ is a chance of 10^-5.
				if d := math.Abs(float64(n) - samples/2); d > 6.5*math.Sqrt(samples)/2 {
					t.Errorf("%s: input bit %d flips output bit %d in %d of %d cases", tt.name, bit, out, n, samples)
				}
			}
		}
	}
}

// No IPv6 prefix that can be computed without the secret has the digest of an
// IPv4 address: neither the one whose place the addresses take, nor what stands
// for that, nor the forms in which IPv6 writes IPv4 addresses.
func TestIPv4HasARealmOfItsOwn(t *testing.T) {
	t.Parallel()
	h, rng := newHasher(t, testSecret(), "per-ip"), rand.New(rand.NewPCG(2, 2))
	const n = 1 << 16
	addrs := []uint32{0, 1, 0xc0000207, math.MaxUint32}
	for range n {
		addrs = append(addrs, rng.Uint32())
	}
	v4, v6 := map[uint64]uint32{}, map[uint64]uint64{}
	for _, a := range addrs {
		v4[h.Word4(a).ID] = a
	}
	for _, a := range addrs {
		for _, hi := range []uint64{
			ipv4Realm | uint64(a), ipv4Realm ^ uint64(a), (ipv4Realm | uint64(a)) * prime1, uint64(a), uint64(a) << 32, 0x0064ff9b<<32 | uint64(a), 0x2002<<48 | uint64(a)<<16,
		} {
			id := h.Word6(hi).ID
			if twin, ok := v4[id]; ok {
				t.Errorf("%#x has the digest of %#x", hi, twin)
			}
			if other, ok := v6[id]; ok && other != hi {
				t.Errorf("%#x has the digest of %#x", hi, other)
			}
			v6[id] = hi
		}
	}
}

// Addresses hash as before but for the place that IPv4 takes: nodes of two
// versions agree on all others.
func TestRealmChangesNothingElse(t *testing.T) {
	t.Parallel()
	h := newHasher(t, testSecret(), "per-ip")
	for _, hi := range []uint64{0, 1, ipv4Realm - 1, ipv4Realm + 1<<32, 0x20010db8 << 32, math.MaxUint64} {
		if got := h.Word6(hi); got != sum8(hi^h.mask6) {
			t.Errorf("%#x: %+v", hi, got)
		}
	}
}
