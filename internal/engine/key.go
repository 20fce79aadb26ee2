package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/fastlimit/fastlimit/internal/exact"
	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/sketch"
)

// Key identifies one client of one rule. It carries the client's digest and
// borrows the bytes it was made from: they must stay unchanged until the call
// that the key is passed to returns. The text is read only when a client is escalated to a shared exact tier.
// A key works only with the rule that made it; another rule panics, and so does the zero value, which is no
// client's key.
type Key struct {
	id uint64
	// x and y are the position, and the rule's tag with the number of parts in its lower half. For an address
	// they are the masked bits and the tag, or both halves if it is longer than 64 bits.
	x, y  uint64
	parts *[]byte // the first of the borrowed parts, or a mark for an address
}

// A Key stays in registers, as a Decision does: four fields, four words.
var _ [0]struct{} = [unsafe.Sizeof(Key{}) - 32]struct{}{}

// These mark keys of addresses: of 4 bytes, of up to 8, and of up to 16.
var isAddr4, isAddr6, isAddr16 []byte

// digest restores the digest. An address has one hash for both halves.
func (k Key) digest() sketch.Digest {
	if k.parts == &isAddr4 || k.parts == &isAddr6 || k.parts == &isAddr16 {
		return sketch.Digest{Pos: k.id, ID: k.id}
	}
	return sketch.Digest{Pos: k.x, ID: k.id}
}

// Digest is fastlimit.Key.Digest.
func (k Key) Digest() sketch.Digest { return k.digest() }

// setTag gives the rule a unique tag other than 0, by which it recognizes its keys.
func (r *Rule) setTag() {
	tag := tags.Add(1) * 0x9e3779b1
	r.tag, r.others = uint64(tag)<<32, ^tag
}

var tags atomic.Uint32

// check panics on a key that this rule did not make, and in a zero rule. It is inlined, and a single
// comparison.
func (r *Rule) check(k Key) {
	if uint32(k.y>>32)^r.others != math.MaxUint32 {
		r.checkFurther(k)
	}
}

// checkFurther is check for an address of more than 64 bits, which leaves no
// room for the tag.
func (r *Rule) checkFurther(k Key) {
	r.checkMade()
	switch {
	case k == Key{}:
		panic(fmt.Sprintf("BUG: fastlimit: rule %q is given the zero Key, which names no client", r.config.Name))
	case k.parts != &isAddr16 || r.mask6lo == 0 || r.hasher.Pair6(k.x, k.y).ID != k.id:
		panic(fmt.Sprintf("BUG: fastlimit: rule %q is given a Key that another rule has made, or one of another Limiter", r.config.Name))
	}
}

func (r *Rule) checkMade() {
	if r.tag == 0 {
		panic("BUG: fastlimit: the Rule was not made by New: get it from Limiter.Rule")
	}
}

// AddrKey is fastlimit.Rule.AddrKey.
func (r *Rule) AddrKey(addr netip.Addr) Key {
	if addr.Is4() || addr.Is4In6() {
		b := addr.As4() // unmaps
		v4 := binary.BigEndian.Uint32(b[:]) & r.mask4
		return Key{id: r.hasher.Word4(v4).ID, x: uint64(v4), y: r.tag, parts: &isAddr4}
	}
	if !addr.IsValid() {
		panic("BUG: fastlimit: AddrKey is given the zero netip.Addr, which is nobody's address")
	}
	b := addr.As16()
	hi := binary.BigEndian.Uint64(b[:8]) & r.mask6hi
	if r.mask6lo == 0 {
		return Key{id: r.hasher.Word6(hi).ID, x: hi, y: r.tag, parts: &isAddr6}
	}
	lo := binary.BigEndian.Uint64(b[8:]) & r.mask6lo
	return Key{id: r.hasher.Pair6(hi, lo).ID, x: hi, y: lo, parts: &isAddr16}
}

// BytesKey is fastlimit.Rule.BytesKey.
func (r *Rule) BytesKey(parts ...[]byte) Key {
	if len(parts) == 0 {
		d := r.hasher.Bytes(nil)
		return Key{id: d.ID, x: d.Pos, y: r.tag}
	}
	d := r.hasher.Bytes(parts[0])
	for _, p := range parts[1:] {
		d = r.hasher.Append(d, p)
	}
	return Key{id: d.ID, x: d.Pos, y: r.tag | uint64(uint32(len(parts))), parts: unsafe.SliceData(parts)}
}

// Clone is fastlimit.Key.Clone.
func (k Key) Clone() Key {
	if k.parts == nil || k.ofAddr() {
		return k
	}
	parts := slices.Clone(k.texts())
	for i := range parts {
		parts[i] = bytes.Clone(parts[i])
	}
	k.parts = unsafe.SliceData(parts)
	return k
}

// AppendKey is fastlimit.Rule.AppendKey.
func (r *Rule) AppendKey(dst []byte, k Key) []byte {
	if k.ofAddr() {
		return keytext.AppendPrefix(dst, r.prefix(k))
	}
	if k.parts == nil {
		return keytext.Append(dst, "")
	}
	for i, p := range k.texts() {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = keytext.Append(dst, string(p))
	}
	return dst
}

// prefix returns the address of a key, or the prefix by which the rule groups addresses.
func (r *Rule) prefix(k Key) netip.Prefix {
	if k.parts == &isAddr4 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(k.x))
		return netip.PrefixFrom(netip.AddrFrom4(b), int(r.prefixes.Bits4))
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], k.x)
	if k.parts == &isAddr16 {
		binary.BigEndian.PutUint64(b[8:], k.y)
	}
	return netip.PrefixFrom(netip.AddrFrom16(b), int(r.prefixes.Bits6))
}

// client returns the key's client in the form that the shared store needs.
func (r *Rule) client(k Key) exact.Client {
	c := exact.Client{Digest: k.digest()}
	if k.ofAddr() {
		c.Prefix = r.prefix(k)
	} else if k.parts != nil {
		c.Parts = k.texts()
	}
	return c
}

// appendName appends the name of k's client within the capacity of dst (see [keytext.Prefixes.Parse]).
func (r *Rule) appendName(dst []byte, k Key) []byte {
	switch {
	case k.parts == &isAddr4:
		return keytext.AppendName4(dst, uint32(k.x))
	case k.parts == &isAddr6:
		return keytext.AppendName6(dst, k.x)
	case k.parts == &isAddr16:
		return keytext.AppendName16(dst, k.x, k.y)
	case k.parts == nil:
		return keytext.AppendNameOf(dst, nil, nil)
	}
	return keytext.AppendNameOf(dst, k.texts(), (*[32]byte)(&r.limiter.secret))
}

var _ [keytext.MaxName - sketch.TalkerNameBytes]struct{}

// nameText formats a client's name, also one from another rule with the same Identity.
func (r *Rule) nameText(name []byte) string { return r.prefixes.Text(name) }

// ParseName splits a client's name from [Rule.TopTalkers] or [Ban]; see [keytext.Prefixes.Parse].
func (r *Rule) ParseName(name []byte) (p netip.Prefix, parts []keytext.Part, ok bool) {
	return r.prefixes.Parse(name)
}

// texts returns the parts of a key that is not an address.
func (k Key) texts() [][]byte { return unsafe.Slice(k.parts, uint32(k.y)) }

// ofAddr reports whether the key is that of an address.
func (k Key) ofAddr() bool { return k.parts == &isAddr4 || k.parts == &isAddr6 || k.parts == &isAddr16 }

// Fingerprint is a hash of a text, keyed with the limiter's secret; see [keytext.Fingerprint].
func (l *Limiter) Fingerprint(text []byte) [8]byte {
	return keytext.Fingerprint((*[32]byte)(&l.secret), text)
}
