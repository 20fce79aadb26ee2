package fastlimit

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"unsafe"

	"github.com/fastlimit/fastlimit/internal/keytext"
)

// namer writes the names of a rule's clients.
type namer struct {
	rule         string // the rule's name
	bits4, bits6 uint8  // its prefix lengths
}

// appendKey is [Rule.AppendKey].
func (n *namer) appendKey(dst []byte, k Key) []byte {
	switch k.parts {
	case &isAddr4:
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(k.x))
		return appendPrefix(dst, netip.AddrFrom4(b), int(n.bits4))
	case &isAddr6, &isAddr16:
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], k.x)
		if k.parts == &isAddr16 {
			binary.BigEndian.PutUint64(b[8:], k.y)
		}
		return appendPrefix(dst, netip.AddrFrom16(b), int(n.bits6))
	case nil:
		return keytext.Append(dst, "")
	}
	for i, p := range unsafe.Slice(k.parts, uint32(k.y)) {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = keytext.Append(dst, string(p))
	}
	return dst
}

// appendQuoted appends the parts of a byte key, each quoted, with commas between them.
func appendQuoted(dst []byte, k Key) []byte {
	if k.parts == nil {
		return append(dst, `""`...)
	}
	for i, p := range unsafe.Slice(k.parts, uint32(k.y)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendQuoteToASCII(dst, string(p))
	}
	return dst
}

// ofAddr reports whether the key is that of an address.
func (k Key) ofAddr() bool { return k.parts == &isAddr4 || k.parts == &isAddr6 || k.parts == &isAddr16 }

func appendPrefix(dst []byte, addr netip.Addr, bits int) []byte {
	if bits == addr.BitLen() {
		return addr.AppendTo(dst)
	}
	return netip.PrefixFrom(addr, bits).AppendTo(dst)
}

// appendStored appends the name of a client's bucket in a shared store: the
// rule's name, in which colons are escaped, a colon, and the client's address or its
// parts in Go syntax, which is not for people and stays as it is over releases. So
// no two clients of any rules have the same name. A long client name, which
// clients write, is replaced by its hash. Braces are escaped in both parts,
// since Redis Cluster places a key by what stands between them: with a header
// {x} clients could otherwise send all their buckets to one node.
func (n *namer) appendStored(b []byte, key Key) []byte {
	const longest = 120
	b = append(appendEscaped(b, n.rule), ':')
	start := len(b)
	if key.ofAddr() {
		return n.appendKey(b, key)
	}
	if b = appendQuoted(b, key); len(b)-start > longest {
		sum := sha256.Sum256(b[start:])
		return hex.AppendEncode(append(b[:start], '#'), sum[:])
	}
	if bytes.ContainsAny(b[start:], "{}") { // only in quoted text, where \x7b means the same
		text := bytes.ReplaceAll(b[start:], []byte("{"), []byte(`\x7b`))
		b = append(b[:start], bytes.ReplaceAll(text, []byte("}"), []byte(`\x7d`))...)
	}
	return b
}

// appendEscaped writes colons, braces and the percent sign as %3A and so on.
func appendEscaped(b []byte, name string) []byte {
	for _, c := range []byte(name) {
		switch c {
		case ':', '{', '}', '%':
			b = fmt.Appendf(b, "%%%02X", c)
		default:
			b = append(b, c)
		}
	}
	return b
}
