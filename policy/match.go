package policy

import (
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// Match selects requests. An empty list matches everything. All non-empty lists must match,
// and nothing of Not.
type Match struct {
	Hosts   []string      // glob patterns over the lower-case host without port
	Paths   []string      // glob patterns over the path as any server may read it; * crosses slashes
	Methods []string      // in capital letters; requests may use other methods
	Headers []HeaderMatch // all of them must match

	// IgnoreCase makes Paths match in any case, and makes paths in the rule's key that
	// differ only in case the same. It is for servers that take /LOGIN for /login. Not
	// still exempts paths only in the case in which they are written.
	IgnoreCase bool

	// Not exempts requests, each by a single one of its conditions.
	Not Exemption
}

// Exemption says to which requests a rule does not apply although the rest of its [Match]
// matches: to those that any host, path, method or header here matches. A path must match
// in every way in which a server may read it.
type Exemption struct {
	Hosts, Paths, Methods []string // as in Match
	Headers               []HeaderMatch
}

// HeaderMatch is a condition on a header of the request.
//
// If a request has several fields of that name, which a client can bring about, the
// stricter reading holds: for a rule to apply one matching field is enough, while an
// [Exemption] needs all of them to match.
type HeaderMatch struct {
	Name   string   // in any case
	Values []string // glob patterns over a value, one of which must match; "*" is any value, also an empty one
}

// Parts returns the parts of a request that the match looks at, without Not, as parts of a
// key.
func (m *Match) Parts() []KeyPart { return parts(m.Hosts, m.Paths, m.Methods, m.Headers) }

// Parts returns the parts of a request that the exemption looks at.
func (n *Exemption) Parts() []KeyPart { return parts(n.Hosts, n.Paths, n.Methods, n.Headers) }

// Reads returns the parts of a request that the rule looks at, in its key and in all
// conditions.
func (r *RuleSpec) Reads() []KeyPart {
	return slices.Concat(r.Key, r.Match.Parts(), r.Match.Not.Parts())
}

func parts(hosts, paths, methods []string, headers []HeaderMatch) (all []KeyPart) {
	for _, c := range []struct {
		kind  KeyKind
		texts []string
	}{{KeyMethod, methods}, {KeyHost, hosts}, {KeyPath, paths}} {
		if len(c.texts) > 0 {
			all = append(all, KeyPart{Kind: c.kind})
		}
	}
	for _, h := range headers {
		all = append(all, KeyPart{Kind: KeyHeader, Name: textproto.CanonicalMIMEHeaderKey(h.Name)})
	}
	return all
}

// matcher is a compiled [Match]. An empty list matches everything.
type matcher struct {
	methods      []string
	hosts, paths []pattern
	ignoreCase   bool        // paths are folded
	rest         *conditions // nil: neither headers nor exemptions, as for most rules
}

// conditions are those parts of a [Match] that few rules have.
type conditions struct {
	headers []headerMatcher

	notMethods         []string
	notHosts, notPaths []pattern
	notHeaders         []headerMatcher
}

type headerMatcher struct {
	name   string // canonical
	values []pattern
}

func compileMatch(m Match) matcher {
	c := matcher{methods: m.Methods, hosts: compileHosts(m.Hosts), paths: compilePaths(m.Paths), ignoreCase: m.IgnoreCase}
	if m.IgnoreCase {
		c.paths = compilePatterns(m.Paths, foldedText)
	}
	n := &m.Not
	rest := conditions{
		headers: compileHeaders(m.Headers), notHeaders: compileHeaders(n.Headers),
		notMethods: n.Methods, notHosts: compileHosts(n.Hosts), notPaths: compilePaths(n.Paths),
	}
	if len(m.Headers)+len(n.Headers)+len(n.Methods)+len(n.Hosts)+len(n.Paths) > 0 {
		c.rest = &rest
	}
	return c
}

func compileHosts(globs []string) []pattern { return compilePatterns(globs, strings.ToLower) }

func compilePaths(globs []string) []pattern {
	return compilePatterns(globs, func(s string) string { return s })
}

func compilePatterns(globs []string, fold func(string) string) []pattern {
	var all []pattern
	for _, g := range globs {
		if matchesAll(g) {
			return nil // one of them matches everything, so the list does
		}
		all = append(all, compilePattern(fold(g)))
	}
	return all
}

// matchesAll reports whether a pattern matches every text.
func matchesAll(glob string) bool { return strings.Trim(glob, "*") == "" }

func compileHeaders(of []HeaderMatch) []headerMatcher {
	all := make([]headerMatcher, len(of))
	for i, h := range of {
		all[i].name = textproto.CanonicalMIMEHeaderKey(h.Name)
		for _, v := range h.Values {
			all[i].values = append(all[i].values, compilePattern(v))
		}
	}
	return all
}

// all reports whether every request matches.
func (m *matcher) all() bool {
	return len(m.methods)+len(m.hosts)+len(m.paths) == 0 && m.rest == nil
}

func (m *matcher) match(r *Request) bool {
	return m.matchMethod(r.Method) && matchAny(m.hosts, r.Host) && (len(m.paths) == 0 || m.matchPath(r)) && (m.rest == nil || m.rest.match(r))
}

func (m *matcher) matchPath(r *Request) bool {
	if m.ignoreCase {
		return r.anyPathFolded(m.paths)
	}
	return r.anyPath(m.paths)
}

// matchMethod takes post for POST, as some servers do. An exemption does not, as others do
// not.
func (m *matcher) matchMethod(method []byte) bool {
	return len(m.methods) == 0 || slices.ContainsFunc(m.methods, func(want string) bool { return isMethod(method, want) })
}

// isMethod reports whether method, in any case, is want, which is in capital letters.
func isMethod(method []byte, want string) bool {
	if len(method) != len(want) {
		return false
	}
	for i, c := range method {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != want[i] {
			return false
		}
	}
	return true
}

func matchAny(patterns []pattern, text []byte) bool {
	return len(patterns) == 0 || anyOf(patterns, text)
}

// anyOf reports whether one of the patterns matches. It returns false if there are none.
func anyOf(patterns []pattern, text []byte) bool {
	for i := range patterns {
		if patterns[i].match(text) {
			return true
		}
	}
	return false
}

// match looks at the headers last: each takes a walk over the field lines.
func (c *conditions) match(r *Request) bool {
	if slices.Contains(c.notMethods, string(r.Method)) || anyOf(c.notHosts, r.Host) || r.everyPath(c.notPaths) {
		return false
	}
	for i := range c.headers {
		if some, _ := c.headers[i].match(r.Fields); !some {
			return false
		}
	}
	for i := range c.notHeaders {
		if _, all := c.notHeaders[i].match(r.Fields); all {
			return false
		}
	}
	return true
}

// match reports whether some of the header's values match, and whether all of them do. Both
// are false for a request without the header.
func (h *headerMatcher) match(f Fields) (some, all bool) {
	if f == nil {
		return false, false
	}
	values := f.Header(h.name)
	all = len(values) > 0
	for _, v := range values {
		ok := anyOf(h.values, v)
		some, all = some || ok, all && ok
	}
	return some, all
}

// kind describes the match in one line, the same for the same conditions in any order.
func (m *Match) kind() (kind []string) {
	for _, c := range []struct {
		what string
		all  []string
	}{
		{"host", m.Hosts},
		{"path", m.Paths},
		{"method", m.Methods},
		{"header", headerTexts(m.Headers)},
		{"not host", m.Not.Hosts},
		{"not path", m.Not.Paths},
		{"not method", m.Not.Methods},
		{"not header", headerTexts(m.Not.Headers)},
	} {
		if len(c.all) > 0 {
			kind = append(kind, c.what+" "+quoteSorted(c.all))
		}
	}
	if m.IgnoreCase {
		kind = append(kind, "in any case")
	}
	return kind
}

// headerTexts returns a text for each condition.
func headerTexts(of []HeaderMatch) []string {
	all := make([]string, len(of))
	for i, h := range of {
		all[i] = textproto.CanonicalMIMEHeaderKey(h.Name) + " " + quoteSorted(h.Values)
	}
	return all
}

func quoteSorted(texts []string) string {
	all := make([]string, len(texts))
	for i, s := range texts {
		all[i] = strconv.Quote(s)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
