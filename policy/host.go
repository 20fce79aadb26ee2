package policy

import (
	"bytes"
	"net/netip"
	"unsafe"
)

// maxHost is the length of the longest host that is accepted: a domain name
// has at most 253 characters.
const maxHost = 255

// AppendHost appends the canonical host of a Host header or an authority to dst, which must
// not overlap it: lower case, without port and trailing dot; an IPv6 address in brackets
// and in its shortest form. An empty host, which the client did not name, stays empty.
//
// ok is false, and nothing is appended, if raw is not a host. Names consist of letters,
// digits and "-_~" in labels that are not empty. Other names arrive as punycode.
func AppendHost(dst, raw []byte) (host []byte, ok bool) {
	if len(raw) > 0 && raw[0] == '[' {
		return appendHost6(dst, raw)
	}
	name := raw
	if i := bytes.IndexByte(raw, ':'); i >= 0 {
		if name = raw[:i]; i == 0 || !isPort(raw[i+1:]) {
			return dst, false
		}
	}
	if len(name) > 1 && name[len(name)-1] == '.' {
		name = name[:len(name)-1]
	}
	if len(name) > maxHost {
		return dst, false
	}
	start := len(dst)
	dot := true // the byte before was a dot, or there was none
	for _, c := range name {
		switch {
		case c == '.' && dot:
			return dst[:start], false
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case !isAlnum(c) && c != '-' && c != '.' && c != '_' && c != '~':
			return dst[:start], false
		}
		dot = c == '.'
		dst = append(dst, c)
	}
	if dot && len(name) > 0 {
		return dst[:start], false
	}
	return dst, true
}

// plainHost is the fast path of [AppendHost]. It returns the length of a host name that is
// already canonical, without its port. 0 means that AppendHost has to look, which is rare
// (BenchmarkAssemble).
func plainHost(raw []byte) int {
	n := bytes.IndexByte(raw, ':')
	if n < 0 {
		n = len(raw)
	} else if !isPort(raw[n+1:]) {
		return 0
	}
	dot := true
	for _, c := range raw[:n] {
		if !isAlnum(c) && c != '-' && c != '.' && c != '_' && c != '~' || 'A' <= c && c <= 'Z' || c == '.' && dot {
			return 0
		}
		dot = c == '.'
	}
	if dot || n > maxHost {
		return 0
	}
	return n
}

func appendHost6(dst, raw []byte) (host []byte, ok bool) {
	end := bytes.IndexByte(raw, ']')
	if end < 0 {
		return dst, false
	}
	if rest := raw[end+1:]; len(rest) > 0 && (rest[0] != ':' || !isPort(rest[1:])) {
		return dst, false
	}
	addr, ok := parseAddr(raw[1:end])
	if !ok || addr.Is4() {
		return dst, false
	}
	dst = append(dst, '[')
	dst = addr.AppendTo(dst)
	return append(dst, ']'), true
}

// isPort reports whether b is a port or empty, which an authority allows.
func isPort(b []byte) bool {
	n := 0
	for _, c := range b {
		if c < '0' || '9' < c {
			return false
		}
		n = min(10*n+int(c-'0'), 1<<16)
	}
	return n < 1<<16
}

// parseAddr parses an address without a zone. It allocates only if b is not one.
func parseAddr(b []byte) (addr netip.Addr, ok bool) {
	const longest = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
	if len(b) == 0 || len(b) > longest || bytes.IndexByte(b, '%') >= 0 {
		return netip.Addr{}, false
	}
	// string(b) would be allocated, because it escapes into the error of ParseAddr
	// (BenchmarkClient). This string shares the bytes of b and does not outlive the
	// call: addr holds none of them and the error is dropped.
	addr, err := netip.ParseAddr(unsafe.String(&b[0], len(b)))
	return addr, err == nil
}
