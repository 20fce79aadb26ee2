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

// kindOf looks at length and first letter first, as most fields are passed on.
func kindOf(name []byte) kind {
	switch len(name) {
	case len("te"):
		return ifNamed(name, "te", hop)
	case len("via"):
		return ifNamed(name, "via", via)
	case len("host"):
		return ifNamed(name, "host", host)
	case len("expect"):
		return ifNamed(name, "expect", expect)
	case len("upgrade"):
		return ifNamed(name, "upgrade", upgrade)
	case len("connection"):
		if k := ifNamed(name, "connection", connection); k != endToEnd {
			return k
		}
		return ifNamed(name, "keep-alive", hop)
	case len("content-length"): // and http2-settings
		if k := ifNamed(name, "content-length", framing); k != endToEnd {
			return k
		}
		return ifNamed(name, "http2-settings", hop)
	case len("proxy-connection"):
		return ifNamed(name, "proxy-connection", hop)
	case len("transfer-encoding"):
		return ifNamed(name, "transfer-encoding", framing)
	case len("proxy-authenticate"):
		return ifNamed(name, "proxy-authenticate", hop)
	case len("proxy-authorization"):
		return ifNamed(name, "proxy-authorization", hop)
	}
	return endToEnd
}

func ifNamed(name []byte, want string, k kind) kind {
	if name[0]|0x20 == want[0] && text.IsName(name, want) {
		return k
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
func (p *Proxy) isForwarding(name []byte) (is, exact bool) {
	switch name[0] | 0x20 {
	case 'x', 'f', p.clientInitial:
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
	return same(name, p.clientHeader), plain(name)
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
