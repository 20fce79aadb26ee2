package proxy

import (
	"bytes"
	"iter"

	"github.com/fastlimit/fastlimit/server/internal/text"
)

// kind is what becomes of a field when a message is passed on.
type kind uint8

const (
	endToEnd   kind = iota
	hop             // of one connection: dropped
	connection      // names others of them
	framing         // Content-Length, Transfer-Encoding: we say where the message ends
	host
	expect
	upgrade
	via
	forwarding // tells who the client is, or what it asked for
)

// kinds are the fields that are not simply passed on, by the length of their names: those
// of most fields have none of these.
var kinds = func() (byLength [20][]struct {
	name string
	kind kind
},
) {
	for name, k := range map[string]kind{
		"te": hop, "keep-alive": hop, "http2-settings": hop, "proxy-connection": hop, "proxy-authenticate": hop, "proxy-authorization": hop,
		"connection": connection, "content-length": framing, "transfer-encoding": framing,
		"host": host, "expect": expect, "upgrade": upgrade, "via": via,
	} {
		byLength[len(name)] = append(byLength[len(name)], struct {
			name string
			kind kind
		}{name, k})
	}
	return byLength
}()

// kindOf looks at length and first letter first, as most fields are passed on.
func kindOf(name []byte) kind {
	if len(name) >= len(kinds) {
		return endToEnd
	}
	for _, k := range kinds[len(name)] {
		if name[0]|0x20 == k.name[0] && text.IsName(name, k.name) {
			return k.kind
		}
	}
	return endToEnd
}

// forwardingNames are the fields by which proxies tell who the client is and what it asked
// for, beside all that begin with "x-forwarded-". Servers believe them, so a client that
// nobody trusts must not set them.
var forwardingNames = []string{"forwarded", "x-real-ip", "x-original-url", "x-original-uri", "x-original-method", "x-rewrite-url"}

const forwardedPrefix = "x-forwarded-"

// isForwarding reports whether a server may take the field for a forwarding one: CGI, and
// what follows it, has the same variable for X-Real-IP, X_Real_IP and, here and there,
// X.Real.IP. exact: it is written as it should be.
func (b *behind) isForwarding(name []byte) (is, exact bool) {
	switch name[0] | 0x20 {
	case 'x', 'f', b.clientInitial:
	default:
		return false, false
	}
	if len(name) >= len(forwardedPrefix) && same(name[:len(forwardedPrefix)], forwardedPrefix) {
		return true, plain(name)
	}
	for _, n := range forwardingNames {
		if same(name, n) {
			return true, plain(name)
		}
	}
	return same(name, b.clientHeader), plain(name)
}

// same compares a name with one in small letters as lenient servers do.
func same(name []byte, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i, c := range name {
		if folded[c] != want[i] {
			return false
		}
	}
	return true
}

// plain reports whether a name has neither underscores nor dots.
func plain(name []byte) bool {
	for _, c := range name {
		if c == '_' || c == '.' {
			return false
		}
	}
	return true
}

// folded has small letters for large ones, and hyphens for underscores and dots.
var folded = func() (t [256]byte) {
	for i := range t {
		c := byte(i)
		switch {
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case c == '_' || c == '.':
			c = '-'
		}
		t[i] = c
	}
	return t
}()

// fold folds a name of our own.
func fold(name string) string {
	b := []byte(name)
	for i, c := range b {
		b[i] = folded[c]
	}
	return string(b)
}

var lengthName, codingName = []byte("content-length"), []byte("transfer-encoding")

// options are those of a Connection field.
func options(value []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for more := true; more; {
			var option []byte
			if option, value, more = bytes.Cut(value, []byte{','}); !yield(text.TrimBlanks(option)) {
				return
			}
		}
	}
}

// namesOthers reports whether a Connection field names a field that has to be dropped, and
// is not dropped anyway.
func namesOthers(value []byte) bool {
	for option := range options(value) {
		switch {
		case text.IsName(option, "close"), text.IsName(option, "keep-alive"):
		case len(option) > 0 && kindOf(option) == endToEnd:
			return true
		}
	}
	return false
}
