package exact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/sketch"
)

// Client identifies whose bucket it is: by digest in the table, and by name in the store. Parts are borrowed
// for the call.
type Client struct {
	Digest sketch.Digest
	Prefix netip.Prefix // of an address, else the zero Prefix
	Parts  [][]byte     // of any other client; none means one empty part
}

// appendName appends the name of a client's bucket in a shared store: the rule's name with colons escaped, a
// colon, and the client's address or its parts in Go syntax. It is not meant for people and does not change
// between releases. So no two clients of any rules have the same name. A long client name, which clients can
// choose, is replaced by its hash. Braces are escaped in both parts, since Redis Cluster places a key by what
// is between them: with a header {x} clients could otherwise send all their buckets to one node.
func appendName(b []byte, rule string, c Client) []byte {
	const longest = 120
	b = append(appendEscaped(b, rule), ':')
	start := len(b)
	if c.Prefix.IsValid() {
		return keytext.AppendPrefix(b, c.Prefix)
	}
	if b = appendQuoted(b, c.Parts); len(b)-start > longest {
		sum := sha256.Sum256(b[start:])
		return hex.AppendEncode(append(b[:start], '#'), sum[:])
	}
	if bytes.ContainsAny(b[start:], "{}") { // only in quoted text, where \x7b means the same
		text := bytes.ReplaceAll(b[start:], []byte("{"), []byte(`\x7b`))
		b = append(b[:start], bytes.ReplaceAll(text, []byte("}"), []byte(`\x7d`))...)
	}
	return b
}

// appendQuoted appends the parts of a key, each quoted, with commas between them.
func appendQuoted(dst []byte, parts [][]byte) []byte {
	if len(parts) == 0 {
		return append(dst, `""`...)
	}
	for i, p := range parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendQuoteToASCII(dst, string(p))
	}
	return dst
}

// appendEscaped escapes colons, braces and the percent sign as %3A and so on.
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
