package proxy

import (
	"bytes"
	"iter"

	"github.com/fastlimit/fastlimit/server/internal/text"
)

// kind says how a field is handled when a message is passed on.
type kind uint8

const (
	endToEnd   kind = iota
	hop             // for one connection: dropped
	connection      // names other hop fields
	framing         // Content-Length, Transfer-Encoding: we define where the message ends
	host
	expect
	upgrade
	via
	forwarding // says who the client is, or what it asked for
)

// kinds are the fields that are not simply passed on, by the length of their names, which few other fields
// share.
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

// kindOf checks length and first letter first, as most fields are passed on.
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

// forwardingNames are the fields by which proxies say who the client is and what it asked for, together with
// all that have one of forwardingPrefixes. Servers believe them, so an untrusted client must not set them.
var (
	forwardingNames    = []string{"forwarded", "x-real-ip", "x-rewrite-url"}
	forwardingPrefixes = []string{"x-forwarded-", "x-original-"}
)

// isForwarding reports whether a server may take the field for a forwarding one. exact means that it is one,
// and not a look-alike.
func (b *behind) isForwarding(name []byte) (is, exact bool) {
	switch name[0] | 0x20 {
	case 'x', 'f', b.clientInitial:
	default:
		return false, false
	}
	for _, p := range forwardingPrefixes {
		if len(name) >= len(p) && same(name[:len(p)], p) {
			return true, plain(name)
		}
	}
	for _, n := range forwardingNames {
		if same(name, n) {
			return true, plain(name)
		}
	}
	return same(name, b.clientHeader), plain(name)
}

var lengthName, codingName = []byte("content-length"), []byte("transfer-encoding")

// options yields the options of a Connection field.
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

// namesOthers reports whether a Connection field names a field that must be dropped and is not dropped
// anyway.
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
