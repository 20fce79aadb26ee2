package policy

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"pgregory.net/rapid"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	full := Match{
		Hosts:   []string{"*.Example.com", "example.com"},
		Paths:   []string{"/api/*", "/login"},
		Methods: []string{"GET", "POST"},
	}
	for _, tc := range []struct {
		m                  Match
		method, host, path string
		want               bool
	}{
		{Match{}, "GET", "a", "/", true},
		{Match{}, "", "", "/", true},
		{full, "GET", "www.example.com", "/login", true},
		{full, "POST", "example.com", "/api/x", true},
		{full, "PUT", "example.com", "/login", false},
		{full, "get", "example.com", "/login", true}, // as some servers read it
		{full, "GET", "example.org", "/login", false},
		{full, "GET", "", "/login", false},
		{full, "GET", "example.com", "/logout", false},
		{full, "GET", "example.com", "/API/x", false},
		{Match{Hosts: []string{"example.com", "**"}}, "GET", "", "/", true},
	} {
		m := compileMatch(tc.m)
		r := &Request{Method: []byte(tc.method), Host: []byte(tc.host), Path: []byte(tc.path)}
		if got := m.match(r); got != tc.want {
			t.Errorf("%+v matches %s %q %q: %v, want %v", tc.m, tc.method, tc.host, tc.path, got, tc.want)
		}
	}
}

// A rule applies if one field of the name matches, and an exemption wants all of them:
// whoever adds a field can only be limited more.
func TestMatchHeaders(t *testing.T) {
	t.Parallel()
	free := []HeaderMatch{{"x-tier", []string{"free*", "trial"}}}
	for _, tc := range []struct {
		m      Match
		fields Fields
		want   bool
	}{
		{Match{Headers: free}, wire{"X-Tier": {"free"}}, true},
		{Match{Headers: free}, wire{"X-Tier": {"free-2"}}, true},
		{Match{Headers: free}, wire{"X-Tier": {"trial"}}, true},
		{Match{Headers: free}, wire{"X-Tier": {"Free"}}, false},
		{Match{Headers: free}, wire{"X-Tier": {""}}, false},
		{Match{Headers: free}, wire{"X-Other": {"free"}}, false},
		{Match{Headers: free}, nil, false},
		{Match{Headers: free}, wire{"X-Tier": {"gold", "free"}}, true},
		{Match{Headers: []HeaderMatch{{"X-Tier", []string{"*"}}}}, wire{"X-Tier": {""}}, true},
		{Match{Headers: []HeaderMatch{{"X-Tier", []string{"*"}}}}, wire{}, false},
		{Match{Headers: append(free, HeaderMatch{"X-B", []string{"1"}})}, wire{"X-Tier": {"free"}}, false},
		{Match{Headers: append(free, HeaderMatch{"X-B", []string{"1"}})}, wire{"X-Tier": {"free"}, "X-B": {"1"}}, true},
		{Match{Not: Exemption{Headers: free}}, wire{"X-Tier": {"free"}}, false},
		{Match{Not: Exemption{Headers: free}}, wire{"X-Tier": {"free", "trial"}}, false},
		{Match{Not: Exemption{Headers: free}}, wire{"X-Tier": {"free", "gold"}}, true},
		{Match{Not: Exemption{Headers: free}}, wire{"X-Tier": {"gold", "free"}}, true},
		{Match{Not: Exemption{Headers: free}}, wire{}, true},
		{Match{Not: Exemption{Headers: free}}, nil, true},
		{Match{Headers: free, Not: Exemption{Headers: []HeaderMatch{{"X-Internal", []string{"*"}}}}}, wire{"X-Tier": {"free"}, "X-Internal": {""}}, false},
	} {
		m := compileMatch(tc.m)
		if got := m.match(&Request{Fields: tc.fields}); got != tc.want {
			t.Errorf("%+v matches %v: %v, want %v", tc.m, tc.fields, got, tc.want)
		}
	}
}

// Each condition of Not exempts by itself, whatever the others say.
func TestMatchNot(t *testing.T) {
	t.Parallel()
	not := Exemption{Hosts: []string{"Static.example.com"}, Paths: []string{"/healthz", "/static/*"}, Methods: []string{"OPTIONS", "HEAD"}}
	for _, tc := range []struct {
		method, host, path string
		want               bool
	}{
		{"GET", "example.com", "/", true},
		{"GET", "", "/healthz/x", true},
		{"GET", "static.example.com", "/", false},
		{"GET", "example.com", "/healthz", false},
		{"GET", "example.com", "/static/a/b", false},
		{"HEAD", "example.com", "/", false},
		{"head", "example.com", "/", true},
	} {
		for _, m := range []Match{{Not: not}, {Not: not, Methods: []string{"GET", "HEAD"}}} {
			c := compileMatch(m)
			r := &Request{Method: []byte(tc.method), Host: []byte(tc.host), Path: []byte(tc.path)}
			if got := c.match(r); got != tc.want {
				t.Errorf("%+v matches %s %q %q: %v, want %v", m, tc.method, tc.host, tc.path, got, tc.want)
			}
		}
	}
}

// slowMatch is what a match means, in the words of the documents.
func slowMatch(m *Match, r *Request) bool {
	hit := func(globs []string, text []byte) bool {
		return slices.ContainsFunc(globs, func(g string) bool { return globRegexp(g).Match(text) })
	}
	given := func(globs []string, text []byte) bool { return len(globs) == 0 || hit(globs, text) }
	matching := func(h HeaderMatch) (of, all int) {
		values := r.Fields.Header(h.Name)
		for _, v := range values {
			if hit(h.Values, v) {
				of++
			}
		}
		return of, len(values)
	}
	for _, h := range m.Headers {
		if of, _ := matching(h); of == 0 {
			return false
		}
	}
	for _, h := range m.Not.Headers {
		if of, all := matching(h); all > 0 && of == all {
			return false
		}
	}
	return given(m.Hosts, r.Host) && given(m.Paths, r.Path) && given(m.Methods, bytes.ToUpper(r.Method)) &&
		!hit(m.Not.Hosts, r.Host) && !hit(m.Not.Paths, r.Path) && !hit(m.Not.Methods, r.Method)
}

func TestMatchAgainstOracle(t *testing.T) {
	t.Parallel()
	list := func(of ...string) *rapid.Generator[[]string] { return rapid.SliceOfN(rapid.SampledFrom(of), 0, 2) }
	hosts, paths, methods := list("a", "*.a", "b*"), list("/", "/x*", "*y"), list("GET", "PUT")
	headers := rapid.Custom(func(t *rapid.T) (all []HeaderMatch) {
		for range rapid.IntRange(0, 2).Draw(t, "headers") {
			all = append(all, HeaderMatch{rapid.SampledFrom([]string{"A", "B"}).Draw(t, "name"), list("*", "1", "1*").Filter(func(v []string) bool { return len(v) > 0 }).Draw(t, "values")})
		}
		return all
	})
	rapid.Check(t, func(t *rapid.T) {
		m := Match{
			Hosts: hosts.Draw(t, "hosts"), Paths: paths.Draw(t, "paths"), Methods: methods.Draw(t, "methods"), Headers: headers.Draw(t, "headers"),
			Not: Exemption{hosts.Draw(t, "not hosts"), paths.Draw(t, "not paths"), methods.Draw(t, "not methods"), headers.Draw(t, "not headers")},
		}
		if rapid.Bool().Draw(t, "headers only") {
			m.Hosts, m.Paths, m.Methods = nil, nil, nil
			m.Not = Exemption{Headers: m.Not.Headers}
		}
		values := list("", "1", "12", "2")
		r := &Request{
			Host: []byte(rapid.SampledFrom([]string{"", "a", "x.a", "bc"}).Draw(t, "host")), Path: []byte(rapid.SampledFrom([]string{"/", "/x", "/xy"}).Draw(t, "path")),
			Method: []byte(rapid.SampledFrom([]string{"GET", "PUT", "HEAD", "put", "gEt", "g%t"}).Draw(t, "method")), Fields: wire{"A": values.Draw(t, "A"), "B": values.Draw(t, "B")},
		}
		c := compileMatch(m)
		if got, want := c.match(r), slowMatch(&m, r); got != want {
			t.Fatalf("%+v matches %+v: %v, want %v", m, r, got, want)
		}
		if c.all() && !slowMatch(&m, r) {
			t.Fatalf("%+v is said to match everything, but not %+v", m, r)
		}
	})
}

// Nodes and reloads tell by KeyKind whether two rules count the same.
func TestMatchKind(t *testing.T) {
	t.Parallel()
	kind := func(m Match) string { return (&RuleSpec{Key: key(byIP), Match: m}).keyKind() }
	a := Match{Headers: []HeaderMatch{{"x-a", []string{"1", "2"}}, {"X-B", []string{"3"}}}, Not: Exemption{Paths: []string{"/b", "/a"}}}
	same := Match{Headers: []HeaderMatch{{"X-B", []string{"3"}}, {"X-A", []string{"2", "1"}}}, Not: Exemption{Paths: []string{"/a", "/b"}}}
	if kind(a) != kind(same) {
		t.Errorf("the same match in another order: %s and %s", kind(a), kind(same))
	}
	seen := map[string]Match{}
	for _, m := range []Match{
		{},
		a,
		{Paths: []string{"/a"}},
		{Not: Exemption{Paths: []string{"/a"}}},
		{Not: Exemption{Hosts: []string{"/a"}}},
		{Not: Exemption{Methods: []string{"GET"}}},
		{Methods: []string{"GET"}},
		{Headers: []HeaderMatch{{"X-A", []string{"1"}}}},
		{Headers: []HeaderMatch{{"X-A", []string{"2"}}}},
		{Headers: []HeaderMatch{{"X-B", []string{"1"}}}},
		{Not: Exemption{Headers: []HeaderMatch{{"X-A", []string{"1"}}}}},
	} {
		if other, twice := seen[kind(m)]; twice {
			t.Errorf("%+v and %+v are one: %s", m, other, kind(m))
		}
		seen[kind(m)] = m
	}
}

func TestMatchRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxPattern+1)
	for want, m := range map[string]Match{
		"Match.Headers[0]: \"\" is not the name":                 {Headers: []HeaderMatch{{"", []string{"*"}}}},
		"Match.Headers[1]: \"a b\" is not the name":              {Headers: []HeaderMatch{{"A", []string{"*"}}, {"a b", []string{"*"}}}},
		"write match.host":                                       {Headers: []HeaderMatch{{"host", []string{"a"}}}},
		"Match.Headers[0]: header A without a pattern":           {Headers: []HeaderMatch{{Name: "A"}}},
		"Match.Not.Headers[0]: pattern \" b\": blanks":           {Not: Exemption{Headers: []HeaderMatch{{"A", []string{" b"}}}}},
		"Match.Not.Headers[0]: pattern \"a\\n\": values have no": {Not: Exemption{Headers: []HeaderMatch{{"A", []string{"a\n"}}}}},
		"Match.Headers[0]: a pattern of 1025 bytes":              {Headers: []HeaderMatch{{"A", []string{long}}}},
		"Match.Not.Paths[0]: \"*\" exempts every request":        {Not: Exemption{Paths: []string{"*"}}},
		"Match.Not.Hosts[1]: \"**\" exempts every request":       {Not: Exemption{Hosts: []string{"a", "**"}}},
		"Match.Not.Hosts[0]: host pattern \"a b\"":               {Not: Exemption{Hosts: []string{"a b"}}},
		"Match.Not.Methods[0]: method \"get\" is not":            {Not: Exemption{Methods: []string{"get"}}},
	} {
		s := Settings{Rules: []RuleSpec{{Limit: ruleOf("a", 1), Key: key(byIP), Match: m}}}
		if _, err := New(mustLimiter(t, s), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", m, err, want)
		}
	}
}

// Headers of conditions cost no allocation either. Not parallel, as AllocsPerRun counts
// the allocations of the whole process.
func TestMatchDoesNotAllocate(t *testing.T) {
	s := Settings{Rules: []RuleSpec{{Limit: ruleOf("a", 5), Key: key(byIP), Match: Match{
		Headers: []HeaderMatch{{"X-Tier", []string{"x", "k*"}}},
		Not:     Exemption{Paths: []string{"/healthz"}, Headers: []HeaderMatch{{"X-Internal", []string{"yes"}}}},
	}}}}
	e, r, scratch := mustEngine(t, s), liveRequest("192.0.2.1"), new(Scratch)
	wantNoAllocs(t, "decide", func() { e.Decide(t.Context(), r, scratch) })
	if len(scratch.Applied()) != 1 || e.rules[0].limit.Stats().Denied[fastlimit.StageTable] == 0 {
		t.Error("the rule did not apply")
	}
}
