package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// maxPattern is the length of the longest pattern that is accepted.
const maxPattern = 1 << 10

// CheckHostPattern tells what is wrong with a pattern over hosts: that it is
// malformed, or that no canonical host can ever match it.
func CheckHostPattern(glob string) error {
	if glob == "" || len(glob) > maxPattern {
		return fmt.Errorf("host pattern %q: want 1 to %d bytes; leave match.host out to match every host", glob, maxPattern)
	}
	star := strings.Contains(glob, "*")
	if star && strings.HasPrefix(glob, "[") {
		return nil // part of an IPv6 address
	}
	// A star may stand for anything a host has, so for an x.
	sample := strings.ToLower(strings.ReplaceAll(glob, "*", "x"))
	host, ok := AppendHost(nil, []byte(sample))
	switch {
	case !ok:
		return fmt.Errorf("host pattern %q: not a host name; write for example www.example.com or *.example.com", glob)
	case string(host) != sample && star:
		return fmt.Errorf("host pattern %q: hosts are matched without port and trailing dot; leave them out", glob)
	case string(host) != sample:
		return fmt.Errorf("host pattern %q: hosts are matched without port and trailing dot; write %q", glob, host)
	}
	return nil
}

// CheckPathPattern tells what is wrong with a pattern over paths: that it is
// malformed, or that no canonical path can ever match it.
func CheckPathPattern(glob string) error {
	if glob == "" || len(glob) > maxPattern {
		return fmt.Errorf("path pattern %q: want 1 to %d bytes; leave match.path out to match every path", glob, maxPattern)
	}
	if glob[0] != '/' && glob[0] != '*' {
		if regexSigns.MatchString(glob) {
			return errors.New(regexHint(glob))
		}
		return fmt.Errorf("path pattern %q: paths begin with a slash; write %q or %q", glob, "/"+glob, "*"+glob)
	}
	sample := glob
	if glob[0] == '*' {
		sample = "/" + glob
	}
	path, ok := AppendPath(nil, escapeLonePercent(sample))
	if !ok {
		return fmt.Errorf("path pattern %q: %%00 never reaches a rule", glob)
	}
	if string(path) != sample && regexSigns.MatchString(glob) {
		return errors.New(regexHint(glob))
	}
	if string(path) != sample {
		fix := string(path[len(sample)-len(glob):])
		return fmt.Errorf("path pattern %q: paths are matched decoded, without query, dots resolved and slashes merged; write %q", glob, fix)
	}
	return nil
}

// escapeLonePercent makes a percent sign that begins no escape decode to
// itself: it is text then, as in "/100%*".
func escapeLonePercent(s string) []byte {
	var b []byte
	for i := range len(s) {
		b = append(b, s[i])
		if s[i] == '%' && (i+2 >= len(s) || unhex(s[i+1]) < 0 || unhex(s[i+2]) < 0) {
			b = append(b, "25"...)
		}
	}
	return b
}

// CheckMethod tells what is wrong with a method of a match.
func CheckMethod(method string) error {
	if !isToken(method) || method != strings.ToUpper(method) {
		return fmt.Errorf("method %q: methods are matched exactly; write for example %q", method, "GET")
	}
	return nil
}

// CheckKeyPart tells what is wrong with a part of a key.
func CheckKeyPart(p KeyPart) error {
	named := p.Kind == KeyHeader || p.Kind == KeyCookie
	switch {
	case p.Kind > KeyGlobal:
		return fmt.Errorf("key part of kind %d: there is no such kind", p.Kind)
	case named && !isToken(p.Name):
		return fmt.Errorf("key part with the name %q: want the name of a header or cookie; write for example header:X-Api-Key", p.Name)
	}
	return nil
}

// normalPrefix returns the prefix as lists and proxies are looked up: masked,
// and IPv4 where it is IPv4-mapped.
func normalPrefix(p netip.Prefix) (netip.Prefix, error) {
	switch {
	case !p.IsValid():
		return p, errors.New("invalid prefix; write for example 192.0.2.0/24 or 2001:db8::/32")
	case p.Addr().Is4In6() && p.Bits() < 96:
		return p, fmt.Errorf("prefix %v is not within the IPv4-mapped addresses; write the IPv4 prefix, for example %v/%d",
			p, p.Addr().Unmap(), min(p.Bits(), 32))
	case p.Addr().Is4In6():
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// isToken reports whether s is a token of HTTP (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isAlnum(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
