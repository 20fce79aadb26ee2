package policy

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// grouping returns the prefix by which the rule counts an address, and its length.
func (r *RuleSpec) grouping(addr netip.Addr) (group netip.Prefix, bits int) {
	if bits = cmp.Or(r.Limit.IPv6Prefix, 64); addr.Is4() {
		bits = cmp.Or(r.Limit.IPv4Prefix, 32)
	}
	group, _ = addr.Prefix(bits)
	return group, bits
}

// overridePrefix returns the key of an override of a rule that counts by address.
func (r *RuleSpec) overridePrefix(o *Override) (netip.Prefix, error) {
	const fix = "write for example 192.0.2.7, 10.0.0.0/8 or 2001:db8::/64"
	if len(o.Key) != 1 {
		return netip.Prefix{}, invalid("Key", fix, "has %s, and the rule counts by one, ip", inParts(len(o.Key)))
	}
	text := o.Key[0]
	p, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return p, invalid("Key", fix, "%q is neither an address nor a prefix", text)
		}
		p = netip.PrefixFrom(addr, addr.BitLen())
	}
	if !identifies(plain(p.Addr())) && p.IsSingleIP() {
		return p, invalid("Key", fix, "%q is nobody's address", text)
	}
	if p.Masked() != p {
		return p, invalid("Key", fmt.Sprintf("write %v, or %v for the address alone", p.Masked(), p.Addr()), "%q has bits beyond its length", text)
	}
	if p, err = clientPrefix("Key", p); err != nil {
		return p, err
	}
	if group, bits := r.grouping(p.Addr()); p.Bits() > bits {
		return p, invalid("Key", "write "+group.String(), "%q is a part of what the rule counts as one client", text)
	}
	return p, nil
}

// overrideParts returns the parts of an override's key for all other rules, as in requests.
func (r *RuleSpec) overrideParts(o *Override) (parts [][]byte, err error) {
	k := keyMaker{bits4: cmp.Or(r.Limit.IPv4Prefix, 32), bits6: cmp.Or(r.Limit.IPv6Prefix, 64), ignoreCase: r.Match.IgnoreCase}
	for _, p := range r.Key {
		k.parts = append(k.parts, keyPart{KeyPart: p})
	}
	if len(o.Key) != len(r.Key) {
		return nil, invalid("Key", "write a text for each: "+k.describe(), "has %s, and the rule counts by %d", inParts(len(o.Key)), len(r.Key))
	}
	for i, text := range o.Key {
		part, err := k.rawPart(i, text)
		if err == nil {
			err = unseen(r.Key[i], text)
		}
		if err != nil {
			return nil, invalid("Key", "write it as requests have it", "%v", err)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// unseen reports a text that no request can have in that part of its key: HTTP has no such
// methods, headers and cookies, and blanks around a value are not read.
func unseen(p KeyPart, text string) error {
	blanks := " \t"
	switch p.Kind {
	case KeyMethod:
		if strings.ContainsAny(text, blanks) {
			return fmt.Errorf("key part %q has blanks, and methods have none", text)
		}
	case KeyHeader, KeyCookie:
		if strings.Trim(text, blanks) != text {
			return fmt.Errorf("key part %q begins or ends with blanks, which are not read with a %v", text, p)
		}
		if p.Kind == KeyCookie && strings.Contains(text, ";") {
			return fmt.Errorf("key part %q has a semicolon, with which a cookie ends", text)
		}
	default:
		return nil // already checked
	}
	for _, c := range []byte(text) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("key part %q has a control character, which requests cannot have in a %v", text, p)
		}
	}
	return nil
}

// overrideName returns a name of the clients of an override that no other clients have.
func (r *RuleSpec) overrideName(o *Override) (string, error) {
	if r.byAddress() {
		p, err := r.overridePrefix(o)
		if err != nil {
			return "", err
		}
		b, _ := p.MarshalBinary()
		return string(b), nil
	}
	parts, err := r.overrideParts(o)
	var framed []byte
	for _, part := range parts {
		framed = append(binary.AppendUvarint(framed, uint64(len(part))), part...)
	}
	return string(framed), err
}

// inParts returns the number of parts of a key, in words.
func inParts(n int) string {
	if n == 1 {
		return "1 part"
	}
	return strconv.Itoa(n) + " parts"
}
