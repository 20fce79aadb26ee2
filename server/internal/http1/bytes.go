package http1

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/fastlimit/fastlimit/server/internal/text"
)

// tokens are the characters of a token, RFC 9110 §5.6.2.
const tokens = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// Token is the set of bytes of a token. Not to be changed.
var Token = setOf(tokens)

// hostByte is the set of bytes of a host with a port, RFC 3986 §3.2.2.
var hostByte = setOf("!$%&'()*+,-.:;=[]_~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")

func setOf(members string) (t [256]bool) {
	for _, c := range []byte(members) {
		t[c] = true
	}
	return t
}

// allIn reports whether b consists of members of a set.
func allIn(b []byte, set *[256]bool) bool {
	for _, c := range b {
		if !set[c] {
			return false
		}
	}
	return true
}

// ControlByte returns the index of the first control byte in b from index i on, including tabs, or len(b). It
// tests eight bytes at a time: in a word x, (x - 0x20…) &^ x has the top bits of bytes below 0x20, and the
// same of x ^ 0x7f… and 0x01… those of DEL. A borrow may set more of them, but only above the first one.
func ControlByte(b []byte, i int) int {
	const ones = 0x0101010101010101
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		y := x ^ 0x7f*ones
		if m := ((x-0x20*ones)&^x | (y-ones)&^y) & (0x80 * ones); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(b); i++ {
		if b[i] < ' ' || b[i] == 0x7f {
			break
		}
	}
	return i
}

// textEnd is like ControlByte, but passes over tabs.
func textEnd(b []byte, i int) int {
	for i = ControlByte(b, i); i < len(b) && b[i] == '\t'; {
		i = ControlByte(b, i+1)
	}
	return i
}

// isText reports whether b has no control bytes except tabs.
func isText(b []byte) bool { return textEnd(b, 0) == len(b) }

func isASCII(b []byte) bool {
	const high = 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		if binary.NativeEndian.Uint64(b)&high != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// IsCRLF reports whether b, which has at least two bytes, begins with a CRLF.
func IsCRLF(b []byte) bool { return b[0] == '\r' && b[1] == '\n' }

// IsForwarding reports whether a field is one by which proxies name their client.
func IsForwarding(name []byte) bool {
	return text.IsName(name, "forwarded") || text.IsName(name, "x-real-ip") || text.IsName(name, "x-forwarded-for")
}

// HasOption reports whether a Connection field has this option, given in lower case.
func HasOption(value []byte, name string) bool {
	for {
		end := bytes.IndexByte(value, ',')
		option := value
		if end >= 0 {
			option = value[:end]
		}
		if len(option) >= len(name) && text.IsName(text.TrimBlanks(option), name) {
			return true
		}
		if end < 0 {
			return false
		}
		value = value[end+1:]
	}
}
