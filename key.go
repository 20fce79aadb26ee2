package fastlimit

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"unsafe"

	"github.com/fastlimit/fastlimit/sketch"
)

// Key identifies one client of one rule. It carries the client's digest and
// borrows the bytes it was made from: they must stay unchanged until the call
// that the key is handed to returns. The text is read only when a client is
// escalated to a shared exact tier. Use a key with the rule that made it. The
// zero value is the key of no client.
//
// Like [Decision] it is made to stay in registers: four fields, four words.
type Key struct {
	id    uint64
	x, y  uint64  // parts: position and their number; addresses: the masked address
	parts *[]byte // the first of the borrowed parts, or a mark for an address
}

var _ [0]struct{} = [unsafe.Sizeof(Key{}) - 32]struct{}{}

// isAddr4 and isAddr6 mark keys of addresses.
var isAddr4, isAddr6 []byte

// digest restores the digest. That of an address has one hash for both parts.
func (k Key) digest() sketch.Digest {
	if k.parts == &isAddr4 || k.parts == &isAddr6 {
		return sketch.Digest{Pos: k.id, ID: k.id}
	}
	return sketch.Digest{Pos: k.x, ID: k.id}
}

// AddrKey is the key of a client address under the rule's prefix lengths, /32
// and /64 unless configured otherwise. An IPv4-mapped IPv6 address is the
// IPv4 address; a zone is ignored. It does not allocate.
func (r *Rule) AddrKey(addr netip.Addr) Key {
	if addr.Is4() || addr.Is4In6() {
		b := addr.As4() // unmaps
		v4 := binary.BigEndian.Uint32(b[:]) & r.mask4
		return Key{id: r.hasher.Word4(v4).ID, x: uint64(v4), parts: &isAddr4}
	}
	b := addr.As16()
	hi := binary.BigEndian.Uint64(b[:8]) & r.mask6hi
	if r.mask6lo == 0 {
		return Key{id: r.hasher.Word6(hi).ID, x: hi, parts: &isAddr6}
	}
	lo := binary.BigEndian.Uint64(b[8:]) & r.mask6lo
	return Key{id: r.hasher.Pair6(hi, lo).ID, x: hi, y: lo, parts: &isAddr6}
}

// BytesKey is the key of a client that is named by byte strings: a header, a
// cookie, a path. Parts are framed, so ("a", "bc") is another client than
// ("ab", "c"). It does not allocate and keeps no reference to the parts
// beyond the life of the key.
func (r *Rule) BytesKey(parts ...[]byte) Key {
	if len(parts) == 0 {
		d := r.hasher.Bytes(nil)
		return Key{id: d.ID, x: d.Pos}
	}
	d := r.hasher.Bytes(parts[0])
	for _, p := range parts[1:] {
		d = r.hasher.Append(d, p)
	}
	return Key{id: d.ID, x: d.Pos, y: uint64(len(parts)), parts: unsafe.SliceData(parts)}
}

// AppendKey appends a name of the client to dst: an address, a prefix where
// the rule's is shorter than the address, or the parts of a byte key in Go
// syntax, quoted and separated by commas. Different clients of a rule have
// different names.
func (r *Rule) AppendKey(dst []byte, k Key) []byte {
	switch k.parts {
	case &isAddr4:
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(k.x))
		return appendPrefix(dst, netip.AddrFrom4(b), int(r.bits4))
	case &isAddr6:
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], k.x)
		binary.BigEndian.PutUint64(b[8:], k.y)
		return appendPrefix(dst, netip.AddrFrom16(b), int(r.bits6))
	case nil:
		return append(dst, `""`...)
	}
	for i, p := range unsafe.Slice(k.parts, k.y) {
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
