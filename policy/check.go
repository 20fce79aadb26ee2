package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/ascii"
	"github.com/fastlimit/fastlimit/internal/nat64"
)

// invalid describes what is wrong with a field of [Settings] or [RuleSpec].
func invalid(name, fix, format string, args ...any) *fastlimit.FieldError {
	return &fastlimit.FieldError{Package: "fastlimit/policy", Field: name, Problem: fmt.Sprintf(format, args...), Fix: fix}
}

// check joins everything that is wrong with the key and match of a rule, each as a
// [fastlimit.FieldError]. The limiter has already checked the rule's limit.
func (r *RuleSpec) check() error {
	var errs []error
	add := func(name string, i int, err error) {
		if e, ok := errors.AsType[*fastlimit.FieldError](err); ok {
			e.Rule, e.Field = r.Limit.Name, name+"["+strconv.Itoa(i)+"]"
			errs = append(errs, e)
		}
	}
	if len(r.Key) == 0 {
		errs = append(errs, r.invalid("Key", "write for example key: ip, or key: global for one limit for all", "no key"))
	}
	for i, part := range r.Key {
		add("Key", i, CheckKeyPart(part))
	}
	m, n := &r.Match, &r.Match.Not
	checkEach(add, "Match.Hosts", m.Hosts, CheckHostPattern)
	checkEach(add, "Match.Paths", m.Paths, CheckPathPattern)
	checkEach(add, "Match.Methods", m.Methods, CheckMethod)
	checkEach(add, "Match.Headers", m.Headers, CheckHeaderMatch)
	checkEach(add, "Match.Not.Hosts", n.Hosts, exempting(CheckHostPattern))
	checkEach(add, "Match.Not.Paths", n.Paths, exempting(CheckPathPattern))
	checkEach(add, "Match.Not.Methods", n.Methods, CheckMethod)
	checkEach(add, "Match.Not.Headers", n.Headers, CheckHeaderMatch)
	if err := r.CheckCostFrom(); err != nil {
		errs = append(errs, err)
	}
	if err := r.CheckRateFrom(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, r.CheckPrefixes()...)
	return errors.Join(errs...)
}

// checkEach calls add with what check finds in each element of a list.
func checkEach[T any](add func(name string, i int, err error), name string, all []T, check func(T) error) {
	for i, v := range all {
		add(name, i, check(v))
	}
}

// exempting adapts a check of a pattern to a pattern that exempts requests.
func exempting(check func(glob string) error) func(string) error {
	return func(glob string) error {
		if err := check(glob); err != nil {
			return err
		}
		return CheckExemption(glob)
	}
}

// CheckExemption checks that a pattern over hosts or paths leaves requests for its rule.
func CheckExemption(glob string) error {
	if matchesAll(glob) {
		return invalid("Match.Not", "remove it, or the rule", "%q exempts every request", glob)
	}
	return nil
}

// CheckHeaderMatch checks a condition on a header.
func CheckHeaderMatch(h HeaderMatch) error {
	if err := CheckHeaderName(h.Name); err != nil {
		return err
	}
	if len(h.Values) == 0 {
		return invalid("Match.Headers", `write "*" for any value`, "header %s without a pattern", h.Name)
	}
	for _, glob := range h.Values {
		if err := CheckHeaderPattern(glob); err != nil {
			return err
		}
	}
	return nil
}

// CheckHeaderName checks the name of a header in a match.
func CheckHeaderName(name string) error {
	switch {
	case !isToken(name):
		return invalid("Match.Headers", "write for example X-Tier", "%q is not the name of a header", name)
	case strings.EqualFold(name, "Host"):
		return invalid("Match.Headers", "write match.host", "Host is matched in its canonical form, also where a proxy names it elsewhere")
	}
	return nil
}

// CheckHeaderPattern checks a pattern over the value of a header. Values have no leading or
// trailing blanks and no control characters other than tabs, RFC 9110 §5.5.
func CheckHeaderPattern(glob string) error {
	control := func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }
	switch {
	case len(glob) > maxPattern:
		return invalid("Match.Headers", "shorten it", "a pattern of %d bytes, not at most %d", len(glob), maxPattern)
	case strings.Trim(glob, " \t") != glob:
		return invalid("Match.Headers", fmt.Sprintf("write %q", strings.Trim(glob, " \t")), "pattern %q: blanks around a value never reach a rule", glob)
	case strings.ContainsFunc(glob, control):
		return invalid("Match.Headers", "leave them out", "pattern %q: values have no control characters", glob)
	}
	return nil
}

// maxPattern is the length of the longest pattern that is accepted.
const maxPattern = 1 << 10

// CheckHostPattern checks a pattern over hosts. Its error is a [fastlimit.FieldError] if
// the pattern is malformed, or if no canonical host can ever match it. The other checks
// return the same type of error.
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

// escapeLonePercent escapes each percent sign that does not begin an escape, so that it
// decodes to itself: in "/100%*" it is text.
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
		return invalid("Match.Methods", "remove match.method to match every one", "* is no method, and methods are no patterns")
	case !isToken(method) || method != strings.ToUpper(method):
		return invalid("Match.Methods", `write for example "GET"`, "method %q is not one in capital letters", method)
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

// clientPrefix is normalPrefix for addresses of clients. Addresses behind a translator
// become the IPv4 addresses by which those clients are known.
func clientPrefix(list string, p netip.Prefix) (netip.Prefix, error) {
	n, err := normalPrefix(list, p)
	if v4 := nat64.Client(n.Addr()); err == nil && v4 != n.Addr() && n.Bits() >= 96 {
		n = netip.PrefixFrom(v4, n.Bits()-96)
	}
	return n, err
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
