package policy

import (
	"bytes"
	"net/netip"
)

// parseNode reads an element of a forwarding header: an address, possibly with a port and
// in quotes. It drops a zone, which has a meaning on the proxy only. ok is false for
// everything else, including an unspecified address.
func parseNode(b []byte) (addr netip.Addr, ok bool) {
	b = unquote(trimSpace(b))
	host, port := b, []byte(nil)
	bracketed := len(b) > 0 && b[0] == '['
	if bracketed {
		end := bytes.IndexByte(b, ']')
		if end < 0 {
			return netip.Addr{}, false
		}
		host, port = b[1:end], b[end+1:]
	} else if i := bytes.IndexByte(b, ':'); i >= 0 && i == bytes.LastIndexByte(b, ':') {
		host, port = b[:i], b[i:] // an IPv6 address has at least two colons
	}
	if len(port) > 0 && !isNodePort(port) {
		return netip.Addr{}, false
	}
	bare, _, zoned := bytes.Cut(host, []byte("%"))
	addr, ok = parseAddr(bare)
	if !ok || addr.Is4() && (bracketed || zoned) {
		return netip.Addr{}, false
	}
	addr = addr.Unmap()
	return addr, identifies(addr)
}

// isNodePort reports whether b is a colon and a port, in digits or, as RFC
// 7239 allows, obfuscated.
func isNodePort(b []byte) bool {
	if len(b) < 2 || b[0] != ':' {
		return false
	}
	if b[1] != '_' {
		return isPort(b[1:])
	}
	for _, c := range b[2:] {
		if !isAlnum(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return len(b) > 2
}

// forParameter returns the value of the only for= parameter of a forwarded element (RFC
// 7239, section 4), possibly in quotes. ok is false if there is none or more than one, or
// if the element is malformed.
func forParameter(element []byte) (value []byte, ok bool) {
	for more := true; more; {
		var pair []byte
		var whole bool
		if pair, element, more, whole = cutPair(element); !whole {
			return nil, false
		}
		name, v, found := bytes.Cut(pair, []byte("="))
		switch {
		case !found && len(trimSpace(pair)) > 0:
			return nil, false
		case !bytes.EqualFold(trimSpace(name), []byte("for")):
			continue // another parameter, or nothing, which the grammar allows
		case ok:
			return nil, false
		}
		value, ok = v, true
	}
	return value, ok
}

// cutPair cuts an element at the first semicolon outside quotes. more reports that there is
// one, whole that all quotes are closed.
func cutPair(element []byte) (pair, rest []byte, more, whole bool) {
	quoted := false
	for i := 0; i < len(element); i++ {
		switch c := element[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == ';' && !quoted:
			return element[:i], element[i+1:], true, true
		}
	}
	return element, nil, false, !quoted
}

func trimSpace(b []byte) []byte { return bytes.Trim(b, " \t") }

// unquote removes a pair of quotes. It leaves escapes alone: an address needs none, so a
// value with escapes is rejected later.
func unquote(b []byte) []byte {
	if n := len(b); n >= 2 && b[0] == '"' && b[n-1] == '"' {
		return b[1 : n-1]
	}
	return b
}
