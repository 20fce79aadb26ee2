package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit"
	"pgregory.net/rapid"
)

// sameClient reports whether two requests count as one client of the only
// rule, which has a burst of 1.
func sameClient(t testing.TB, e *Engine, a, b *Request) bool {
	t.Helper()
	var s Scratch
	if v := e.Decide(t.Context(), a, &s); !v.Decision.Allowed || v.Rule == nil {
		t.Fatalf("first request: %+v", v)
	}
	v := e.Decide(t.Context(), b, &s)
	if v.Rule == nil {
		t.Fatalf("the rule does not apply to the second request: %+v", v)
	}
	return !v.Decision.Allowed
}

func TestKeysTellClientsApart(t *testing.T) {
	t.Parallel()
	client := func(addr string) func(*Request) {
		return func(r *Request) { r.Client = netip.MustParseAddr(addr) }
	}
	header := func(v string) func(*Request) {
		return func(r *Request) { r.Fields = fieldMap{"X-Api-Key": v, "cookie sid": "s1"} }
	}
	cookie := func(v string) func(*Request) {
		return func(r *Request) { r.Fields = fieldMap{"X-Api-Key": "k1", "cookie sid": v} }
	}
	for _, tc := range []struct {
		key  []KeyPart
		a, b func(*Request)
		same bool
	}{
		{key(byIP), client("192.0.2.1"), client("192.0.2.2"), false},
		{key(byIP), client("192.0.2.1"), client("::ffff:192.0.2.1"), true},
		{key(byIP), client("2001:db8::1"), client("2001:db8::2"), true},
		{key(byIP), client("2001:db8::1"), client("2001:db8:0:1::1"), false},
		{key(byIP), client("192.0.2.1"), header("k2"), true}, // the sample is 192.0.2.1
		{key(byIP, byAll), client("192.0.2.1"), client("192.0.2.2"), false},
		{key(byIP, byAll), client("192.0.2.1"), client("::ffff:192.0.2.1"), true},
		{key(byIP, byAll), client("2001:db8::1"), client("2001:db8::2"), true},
		{key(byIP, byAll), client("2001:db8::1"), client("2001:db8:0:1::1"), false},
		{key(byIP, byAll), client("192.0.2.1"), client("c000:201::"), false}, // the same first bytes
		{key(byHeader), header("k1"), header("k2"), false},
		{key(byHeader), header("k1"), client("192.0.2.9"), true},
		{
			key(byHeader, KeyPart{Kind: KeyHeader, Name: "X-Tenant"}),
			func(r *Request) { r.Fields = fieldMap{"X-Api-Key": "k1", "X-Tenant": "t1"} },
			func(r *Request) { r.Fields = fieldMap{"X-Api-Key": "k1", "X-Tenant": "t2"} }, false,
		},
		{key(byCookie), cookie("s1"), cookie("s2"), false},
		{key(byMethod), func(r *Request) {}, func(r *Request) { r.Method = []byte("PUT") }, false},
		{key(byHost), func(r *Request) {}, func(r *Request) { r.Host = []byte("b") }, false},
		{key(byPath), func(r *Request) {}, func(r *Request) { r.Path = []byte("/") }, false},
		{key(byAll), client("192.0.2.1"), client("192.0.2.2"), true},
		{key(byIP, byHeader), header("k1"), header("k2"), false},
		{key(byHeader, byCookie), header("s1"), func(r *Request) { r.Fields = fieldMap{"X-Api-Key": "s1s", "cookie sid": "1"} }, false},
	} {
		e := mustEngine(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("r", 1), Key: tc.key}}})
		a, b := sampleRequest("192.0.2.1"), sampleRequest("192.0.2.1")
		tc.a(a)
		tc.b(b)
		if got := sameClient(t, e, a, b); got != tc.same {
			t.Errorf("key %v: %v and %v are one client: %v, want %v", tc.key, e.KeyText(e.rules[0].limit, a), e.KeyText(e.rules[0].limit, b), got, tc.same)
		}
	}
}

func TestKeyPrefixLengths(t *testing.T) {
	t.Parallel()
	for _, parts := range [][]KeyPart{key(byIP), key(byIP, byAll)} {
		spec := RuleSpec{Limit: ruleOf("r", 1), Key: parts}
		spec.Limit.IPv4Prefix, spec.Limit.IPv6Prefix = 24, 112
		for _, tc := range []struct {
			a, b string
			same bool
		}{
			{"192.0.2.1", "192.0.2.254", true},
			{"192.0.2.1", "192.0.3.1", false},
			{"2001:db8::1:1", "2001:db8::1:2", true},
			{"2001:db8::1:1", "2001:db8::2:1", false},
		} {
			e := mustEngine(t, Settings{Rules: []RuleSpec{spec}})
			if got := sameClient(t, e, sampleRequest(tc.a), sampleRequest(tc.b)); got != tc.same {
				t.Errorf("key %v: %s and %s are one client: %v", parts, tc.a, tc.b, got)
			}
		}
	}
}

func TestKeyText(t *testing.T) {
	t.Parallel()
	wide := RuleSpec{Limit: ruleOf("wide", 1), Key: key(byIP)}
	wide.Limit.IPv4Prefix, wide.Limit.IPv6Prefix = 24, 128
	e := mustEngine(t, Settings{Rules: []RuleSpec{
		{Limit: ruleOf("r", 1), Key: key(byIP, byMethod, byHost, byPath, byAll, byHeader, byCookie)}, wide,
	}, ShowKeys: []string{"x-api-key", "sid"}})
	for _, tc := range []struct {
		rule   int
		client string
		want   []string
	}{
		{0, "192.0.2.7", []string{"192.0.2.7", "GET", "example.com", "/login", "global", "k1", "s1"}},
		{0, "::ffff:192.0.2.7", []string{"192.0.2.7", "GET", "example.com", "/login", "global", "k1", "s1"}},
		{0, "2001:db8::7", []string{"2001:db8::/64", "GET", "example.com", "/login", "global", "k1", "s1"}},
		{1, "192.0.2.7", []string{"192.0.2.0/24"}},
		{1, "2001:db8::7%eth0", []string{"2001:db8::7"}},
	} {
		if got := e.KeyText(e.rules[tc.rule].limit, sampleRequest(tc.client)).Parts; !slices.Equal(got, tc.want) {
			t.Errorf("KeyText(%d) of %s = %q, want %q", tc.rule, tc.client, got, tc.want)
		}
	}
	other := mustLimiter(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("r", 1), Key: key(byIP)}}}).Rules()[0]
	if got := e.KeyText(other, sampleRequest("192.0.2.1")); got.Text != "" || got.Parts != nil {
		t.Errorf("KeyText of another policy's rule = %q", got)
	}
	if got, want := e.KeyText(e.rules[0].limit, &Request{}).Parts, []string{"", "", "", "", "global", "", ""}; !slices.Equal(got, want) {
		t.Errorf("KeyText of an empty request = %q, want %q", got, want)
	}
}

// denies reports whether key is what the request was charged to: the rule has
// a burst of 1.
func denies(t *testing.T, e *Engine, r *Request, rule *fastlimit.Rule, key fastlimit.Key) bool {
	t.Helper()
	var s Scratch
	if d := rule.Peek(key, 1); !d.Allowed {
		t.Fatalf("before any request: %+v", d)
	}
	if v := e.Decide(t.Context(), r, &s); v.Rule != rule {
		t.Fatalf("%+v, want it to be by rule %s", v, rule.Name())
	}
	return !rule.Peek(key, 1).Allowed
}

func TestKeyFromText(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		client string
		key    []KeyPart
		text   []string
	}{
		{"192.0.2.1", key(byIP), []string{"192.0.2.1"}},
		{"192.0.2.1", key(byIP), []string{"192.0.2.1/32"}},
		{"192.0.2.1", key(byIP), []string{"::ffff:192.0.2.1"}},
		{"2001:db8::1", key(byIP), []string{"2001:db8::2"}},
		{"2001:db8::1", key(byIP), []string{"2001:db8::/64"}},
		{"2001:db8::1", key(byIP), []string{"2001:db8::2%eth0"}},
		{"2001:db8::1", key(byIP, byHeader), []string{"2001:db8::/64", "k1"}},
		{"192.0.2.1", key(byIP, byMethod), []string{"192.0.2.1", "GET"}},
		{"192.0.2.1", key(byHost), []string{"Example.com.:80"}},
		{"192.0.2.1", key(byPath), []string{"/login"}},
		{"192.0.2.1", key(byAll), []string{"global"}},
		{"192.0.2.1", key(byCookie), []string{"s1"}},
	} {
		e := mustEngine(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("r", 1), Key: tc.key}}})
		rule := e.rules[0].limit
		k, err := e.KeyFromText(rule, tc.text)
		if err != nil || !denies(t, e, sampleRequest(tc.client), rule, k) {
			t.Errorf("key %v: %q is not the key of %s: %v", tc.key, tc.text, tc.client, err)
		}
	}
}

func TestIsCanonicalPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/": true, "/a?b#c": true, "/100%": true, "/%41": true, "/a%2Fb": true, "/a/": true,
		"": false, "*": false, "a": false, "http://h/": false, "//": false, "/a/..": false, "/a/./b": false, "/\x00": false,
	} {
		if got := isCanonicalPath(path); got != want {
			t.Errorf("isCanonicalPath(%q) = %v", path, got)
		}
	}
}

func TestKeyFromTextRefuses(t *testing.T) {
	t.Parallel()
	e := mustEngine(t, Settings{Rules: []RuleSpec{
		{Limit: ruleOf("ip", 1), Key: key(byIP)},
		{Limit: ruleOf("header", 1), Key: key(byHeader)},
		{Limit: ruleOf("host", 1), Key: key(byHost)},
		{Limit: ruleOf("path", 1), Key: key(byPath)},
		{Limit: ruleOf("all", 1), Key: key(byAll)},
		{Limit: ruleOf("two", 1), Key: key(byIP, byHeader)},
	}})
	for _, tc := range []struct {
		rule  int
		parts []string
		want  string
	}{
		{0, nil, "0 parts; want 1: ip"},
		{0, []string{"192.0.2.1", "x"}, "2 parts; want 1"},
		{5, []string{"192.0.2.1"}, "want 2: ip, header:X-Api-Key"},
		{0, []string{"localhost"}, "no client's address"},
		{0, []string{""}, "no client's address"},
		{0, []string{"0.0.0.0"}, "no client's address"},
		{0, []string{"::"}, "no client's address"},
		{0, []string{"192.0.2.0/24"}, "as 192.0.2.0"},
		{0, []string{"2001:db8::1/64"}, "as 2001:db8::/64"},
		{0, []string{"2001:db8::/48"}, "as 2001:db8::/64"},
		{0, []string{"2001:db8::/x"}, "as 2001:db8::/64"},
		{1, []string{""}, "header:X-Api-Key is empty"},
		{2, []string{"a b"}, "is no host"},
		{2, []string{""}, "host is empty"},
		{3, []string{"login"}, "no canonical path"},
		{3, []string{"/a//b"}, "no canonical path"},
		{3, []string{"/a/../b"}, "no canonical path"},
		{4, []string{"all"}, `want "global"`},
	} {
		_, err := e.KeyFromText(e.rules[tc.rule].limit, tc.parts)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("rule %d, %q: error %v, want one that says %q", tc.rule, tc.parts, err, tc.want)
		}
	}
	other := mustEngine(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("ip", 1), Key: key(byIP)}}})
	if _, err := e.KeyFromText(other.rules[0].limit, []string{"192.0.2.1"}); err == nil {
		t.Error("a rule of another limiter was accepted")
	}
}

// TestKeyTextRoundTrip: the text that KeyText shows of a request names its key.
func TestKeyTextRoundTrip(t *testing.T) {
	t.Parallel()
	parts := []KeyPart{byIP, byMethod, byHost, byPath, byAll, byHeader, byCookie}
	word := rapid.StringMatching(`[a-z%/?# ;.\\]{1,8}`)
	rapid.Check(t, func(rt *rapid.T) {
		spec := RuleSpec{Limit: ruleOf("r", 1), Key: rapid.SliceOfN(rapid.SampledFrom(parts), 1, 4).Draw(rt, "key")}
		spec.Limit.IPv4Prefix = rapid.IntRange(1, 32).Draw(rt, "v4")
		spec.Limit.IPv6Prefix = rapid.IntRange(1, 128).Draw(rt, "v6")
		e := mustEngine(t, Settings{Rules: []RuleSpec{spec}, ShowKeys: []string{ShowAllKeys}})
		var b [16]byte
		copy(b[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "addr"))
		r := sampleRequest("192.0.2.1")
		r.Client = netip.AddrFrom16(b)
		if rapid.Bool().Draw(rt, "is4") {
			r.Client = netip.AddrFrom4([4]byte(b[:4]))
		}
		if r.Client.IsUnspecified() {
			return
		}
		r.Fields = fieldMap{"X-Api-Key": word.Draw(rt, "header"), "cookie sid": word.Draw(rt, "cookie")}
		// What is not UTF-8 has no parts.
		var s Scratch
		var read Request
		if s.readPath([]byte("/"+word.Draw(rt, "path")), &read) && utf8.Valid(read.Path) {
			r.Path, r.others, r.loose = read.Path, read.others, read.loose
		}
		text, rule := e.KeyText(e.rules[0].limit, r), e.rules[0].limit
		k, err := e.KeyFromText(rule, text.Parts)
		if err != nil || !denies(t, e, r, rule, k) {
			rt.Fatalf("key %v: %q is not the key of the request it was made from: %v", spec.Key, text, err)
		}
		if read := e.ReadKey(rule, []string{text.Text}); !slices.Equal(read, text.Parts) {
			rt.Fatalf("key %v: %s reads %q, want %q", spec.Key, text.Text, read, text.Parts)
		}
	})
}
