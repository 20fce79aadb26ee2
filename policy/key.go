package policy

import (
	"net/netip"
	"net/textproto"
	"slices"

	"github.com/fastlimit/fastlimit"
)

// keyMaker is a compiled key.
type keyMaker struct {
	parts        []keyPart
	bits4, bits6 int  // prefix lengths of addresses
	ignoreCase   bool // of paths
}

type keyPart struct {
	KeyPart
	field  int  // index into Engine.fields, of headers and cookies
	hidden bool // shown as a hash
}

// globalPart is the key part of [KeyGlobal], the same for all requests.
var globalPart = []byte("global")

func (e *Engine) compileKey(spec *RuleSpec, config fastlimit.RuleConfig, shown []string) keyMaker {
	k := keyMaker{bits4: config.IPv4Prefix, bits6: config.IPv6Prefix, ignoreCase: spec.Match.IgnoreCase}
	for _, p := range spec.Key {
		part := keyPart{KeyPart: p}
		if p.named() {
			part.field = e.fieldIndex(p)
			part.hidden = !shows(shown, p)
		}
		k.parts = append(k.parts, part)
	}
	return k
}

// addrOnly reports whether the key is a client address and nothing else.
func (k *keyMaker) addrOnly() bool { return len(k.parts) == 1 && k.parts[0].Kind == KeyIP }

// fieldIndex returns the index of a header or cookie in e.fields, and adds it if it is new,
// so that one that several rules use is looked up once per request.
func (e *Engine) fieldIndex(p KeyPart) int {
	if p.Kind == KeyHeader {
		p.Name = textproto.CanonicalMIMEHeaderKey(p.Name)
	}
	if i := slices.Index(e.fields, p); i >= 0 {
		return i
	}
	e.fields = append(e.fields, p)
	return len(e.fields) - 1
}

// key returns the key of a request for a rule. ok is false if the request lacks a part of
// it. The key borrows from the request and the scratch.
func (e *Engine) key(c *rule, r *Request, s *Scratch) (key fastlimit.Key, ok bool) {
	if c.addrOnly {
		if !identifies(s.client) {
			return fastlimit.Key{}, false
		}
		return c.limit.AddrKey(s.client), true
	}
	first := len(s.parts)
	for i := range c.key.parts {
		part := e.part(&c.key, &c.key.parts[i], r, s)
		if len(part) == 0 {
			return fastlimit.Key{}, false
		}
		s.parts = append(s.parts, part)
	}
	return c.limit.BytesKey(s.parts[first:]...), true
}

// part returns one part of the key. It is empty if the request lacks it.
func (e *Engine) part(k *keyMaker, p *keyPart, r *Request, s *Scratch) []byte {
	switch p.Kind {
	case KeyIP:
		if !identifies(s.client) {
			return nil
		}
		start := len(s.addrs)
		s.addrs = k.appendAddr(s.addrs, s.client)
		return s.addrs[start:]
	case KeyHeader, KeyCookie:
		return s.keyed[p.field]
	case KeyMethod:
		return r.Method
	case KeyHost:
		return r.Host
	case KeyPath:
		path := r.Path
		if r.loose != nil {
			path = r.loose
		}
		switch {
		case !k.ignoreCase:
			return path
		case s == nil:
			return AppendFolded(nil, path)
		}
		start := len(s.addrs)
		s.addrs = AppendFolded(s.addrs, path)
		return s.addrs[start:]
	}
	return globalPart
}

// appendAddr appends addr, masked to its prefix length: 4 bytes for IPv4, 8 for IPv6
// with up to 64 bits, else 16. The number of bytes tells them apart within a key.
func (k *keyMaker) appendAddr(dst []byte, addr netip.Addr) []byte {
	p := k.prefix(addr)
	if addr.Is4() {
		b := p.Addr().As4()
		return append(dst, b[:]...)
	}
	b := p.Addr().As16()
	if k.bits6 <= 64 {
		return append(dst, b[:8]...)
	}
	return append(dst, b[:]...)
}

// prefix returns the prefix by which addr is counted.
func (k *keyMaker) prefix(addr netip.Addr) netip.Prefix {
	bits := k.bits6
	if addr.Is4() {
		bits = k.bits4
	}
	p, _ := addr.Prefix(bits) // the limiter has checked the lengths
	return p
}

// identifies reports whether addr can tell a client from others.
func identifies(addr netip.Addr) bool { return addr.IsValid() && !addr.IsUnspecified() }
