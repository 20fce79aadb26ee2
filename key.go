package fastlimit

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/fastlimit/fastlimit/sketch"
)

// Key identifies one client of one rule. It carries the client's digest and
// borrows the bytes it was made from: they must stay unchanged until the call
// that the key is handed to returns. The text is read only when a client is
// escalated to a shared exact tier. Use a key with the rule that made it. The
// zero value is the key of no client.
type Key struct {
	digest sketch.Digest
	hi, lo uint64 // address, masked; IPv4 in the lower half of lo
	bits   uint8  // prefix length
	kind   keyKind
	parts  [][]byte // borrowed
}

type keyKind uint8

const (
	keyParts keyKind = iota
	keyAddr4
	keyAddr6
)

// AddrKey is the key of a client address under the rule's prefix lengths, /32
// and /64 unless configured otherwise. An IPv4-mapped IPv6 address is the
// IPv4 address; a zone is ignored. It does not allocate.
func (r *Rule) AddrKey(addr netip.Addr) Key {
	if addr.Is4() || addr.Is4In6() {
		b := addr.As4() // unmaps
		v4 := binary.BigEndian.Uint32(b[:]) & r.mask4
		return Key{digest: r.hasher.Word4(v4), lo: uint64(v4), bits: r.bits4, kind: keyAddr4}
	}
	b := addr.As16()
	hi := binary.BigEndian.Uint64(b[:8]) & r.mask6hi
	if r.mask6lo == 0 {
		return Key{digest: r.hasher.Word6(hi), hi: hi, bits: r.bits6, kind: keyAddr6}
	}
	lo := binary.BigEndian.Uint64(b[8:]) & r.mask6lo
	return Key{digest: r.hasher.Pair6(hi, lo), hi: hi, lo: lo, bits: r.bits6, kind: keyAddr6}
}

// BytesKey is the key of a client that is named by byte strings: a header, a
// cookie, a path. Parts are framed, so ("a", "bc") is another client than
// ("ab", "c"). It does not allocate and keeps no reference to the parts
// beyond the life of the key.
func (r *Rule) BytesKey(parts ...[]byte) Key {
	if len(parts) == 0 {
		return Key{digest: r.hasher.Bytes(nil)}
	}
	d := r.hasher.Bytes(parts[0])
	for _, p := range parts[1:] {
		d = r.hasher.Append(d, p)
	}
	return Key{digest: d, parts: parts}
}

// AppendText appends a name of the client to dst: an address, a prefix where
// it is shorter than the address, or the parts of a byte key in Go syntax,
// quoted and separated by commas. Different clients of a rule have different
// names.
func (k Key) AppendText(dst []byte) []byte {
	switch k.kind {
	case keyAddr4:
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(k.lo))
		return appendPrefix(dst, netip.AddrFrom4(b), int(k.bits))
	case keyAddr6:
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], k.hi)
		binary.BigEndian.PutUint64(b[8:], k.lo)
		return appendPrefix(dst, netip.AddrFrom16(b), int(k.bits))
	}
	for i, p := range k.parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendQuoteToASCII(dst, string(p))
	}
	return dst
}

func appendPrefix(dst []byte, addr netip.Addr, bits int) []byte {
	if bits == addr.BitLen() {
		return addr.AppendTo(dst)
	}
	return netip.PrefixFrom(addr, bits).AppendTo(dst)
}
