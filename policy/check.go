package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/ascii"
)

// invalid describes what is wrong with a field of [Settings] or [RuleSpec].
func invalid(name, fix, format string, args ...any) *fastlimit.FieldError {
	return &fastlimit.FieldError{Package: "fastlimit/policy", Field: name, Problem: fmt.Sprintf(format, args...), Fix: fix}
}

// check joins everything that is wrong with the key and match of a rule, each as a
// [fastlimit.FieldError]. The limiter has checked its limit.
func (r *RuleSpec) check() error {
	var errs []error
	add := func(name string, i int, err error) {
		if e, ok := errors.AsType[*fastlimit.FieldError](err); ok {
			e.Rule, e.Field = r.Limit.Name, name+"["+strconv.Itoa(i)+"]"
			errs = append(errs, e)
		}
	}
	if len(r.Key) == 0 {
		e := invalid("Key", "write for example key: ip, or key: global for one limit for all", "no key")
		e.Rule = r.Limit.Name
		errs = append(errs, e)
	}
	for i, part := range r.Key {
		add("Key", i, CheckKeyPart(part))
	}
	for i, h := range r.Match.Hosts {
		add("Match.Hosts", i, CheckHostPattern(h))
	}
	for i, p := range r.Match.Paths {
		add("Match.Paths", i, CheckPathPattern(p))
	}
	for i, m := range r.Match.Methods {
		add("Match.Methods", i, CheckMethod(m))
	}
	if err := r.CheckCostFrom(); err != nil {
		errs = append(errs, err)
	}
	if err := r.CheckRateFrom(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// maxPattern is the length of the longest pattern that is accepted.
const maxPattern = 1 << 10

// CheckHostPattern checks a pattern over hosts. A pattern that is malformed, or that no
// canonical host can ever match, is a [fastlimit.FieldError]; so are the errors of the
// other checks.
func CheckHostPattern(glob string) error {
	if glob == "" || len(glob) > maxPattern {
		return invalid("Match.Hosts", "leave match.host out to match every host", "has %d bytes, not 1 to %d", len(glob), maxPattern)
	}
	star := strings.Contains(glob, "*")
	if star && strings.HasPrefix(glob, "[") {
		return nil // an IPv6 address, whose parts the star makes impossible to check
	}
	// If the pattern can match a host at all, it matches with an x for each star.
	sample := strings.ToLower(strings.ReplaceAll(glob, "*", "x"))
	host, ok := AppendHost(nil, []byte(sample))
	switch {
	case !ok:
		return invalid("Match.Hosts", "write for example www.example.com or *.example.com", "host pattern %q: not a host name", glob)
	case string(host) != sample && star:
		return invalid("Match.Hosts", "leave them out", "host pattern %q: hosts are matched without port and trailing dot", glob)
	case string(host) != sample:
		return invalid("Match.Hosts", fmt.Sprintf("write %q", host), "host pattern %q: hosts are matched without port and trailing dot", glob)
	}
	return nil
}

// CheckPathPattern checks a pattern over paths. It must be well formed, and there must
// be a canonical path that it matches.
func CheckPathPattern(glob string) error {
	if glob == "" || len(glob) > maxPattern {
		return invalid("Match.Paths", "leave match.path out to match every path", "has %d bytes, not 1 to %d", len(glob), maxPattern)
	}
	if glob[0] != '/' && glob[0] != '*' {
		if regexSigns.MatchString(glob) {
			return notRegex(glob)
		}
		return invalid("Match.Paths", fmt.Sprintf("write %q or %q", "/"+glob, "*"+glob), "path pattern %q: paths begin with a slash", glob)
	}
	sample := glob
	if glob[0] == '*' {
		sample = "/" + glob
	}
	path, ok := AppendPath(nil, escapeLonePercent(sample))
	if !ok {
		return invalid("Match.Paths", "leave it out", "path pattern %q: %%00 never reaches a rule", glob)
	}
	if string(path) != sample && regexSigns.MatchString(glob) {
		return notRegex(glob)
	}
	if string(path) != sample {
		fix := string(path[len(sample)-len(glob):])
		return invalid("Match.Paths", fmt.Sprintf("write %q", fix), "path pattern %q: paths are matched decoded, without query, dots resolved and slashes merged", glob)
	}
	return nil
}

// escapeLonePercent escapes each percent sign that does not begin an escape, so that
// it decodes to itself: in "/100%*" it is text.
func escapeLonePercent(s string) []byte {
	var b []byte
	for i := range len(s) {
		b = append(b, s[i])
		if s[i] == '%' && (i+2 >= len(s) || ascii.Hex(s[i+1]) < 0 || ascii.Hex(s[i+2]) < 0) {
			b = append(b, "25"...)
		}
	}
	return b
}

// CheckMethod checks a method of a match.
func CheckMethod(method string) error {
	switch {
	case strings.Contains(method, "*"): // a valid token, but meant as a pattern
		return invalid("Match.Methods", "remove match.method to match every one", "methods are matched exactly, and * is none")
	case !isToken(method) || method != strings.ToUpper(method):
		return invalid("Match.Methods", `write for example "GET"`, "method %q: methods are matched exactly", method)
	}
	return nil
}

// CheckKeyPart checks one part of a key.
func CheckKeyPart(p KeyPart) error {
	switch {
	case p.Kind > KeyGlobal:
		return invalid("Key", "want one of the constants", "key part of kind %d: there is no such kind", p.Kind)
	case p.named() && !isToken(p.Name):
		return invalid("Key", "write for example header:X-Api-Key", "key part with the name %q: want the name of a header or cookie", p.Name)
	}
	return nil
}

// normalPrefix returns the form in which prefixes are stored for lookup: masked, and
// IPv4 instead of IPv4-mapped IPv6. list names the field for errors.
func normalPrefix(list string, p netip.Prefix) (netip.Prefix, error) {
	switch {
	case !p.IsValid():
		return p, invalid(list, "write for example 192.0.2.0/24 or 2001:db8::/32", "invalid prefix")
	case p.Addr().Is4In6() && p.Bits() < 96:
		return p, invalid(list, fmt.Sprintf("write the IPv4 prefix, for example %v/%d", p.Addr().Unmap(), min(p.Bits(), 32)),
			"prefix %v is not within the IPv4-mapped addresses", p)
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
