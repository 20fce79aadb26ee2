package policy

import (
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// constFields returns what it holds without allocating, unlike a fieldMap.
type constFields struct{ header, cookie [][]byte }

func (f *constFields) Header(string) [][]byte { return f.header }
func (f *constFields) Cookie(string) [][]byte { return f.cookie }

func liveRequest(client string) *Request {
	r := sampleRequest(client)
	r.Fields = &constFields{header: instances("k1"), cookie: instances("s1")}
	return r
}

func wantNoAllocs(t *testing.T, name string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(200, f); n != 0 {
		t.Errorf("%s: %v allocations, want 0", name, n)
	}
}

// everyKey has a rule for each kind of key, and composites.
func everyKey() Settings {
	keys := [][]KeyPart{
		{byIP},
		{byMethod},
		{byHost},
		{byPath},
		{byAll},
		{byHeader},
		{byCookie},
		{byIP, byPath},
		{byHeader, byIP, byCookie, byIP},
		{byIP, byMethod, byHost, byPath, byAll, byHeader, byCookie},
	}
	var s Settings
	for i, k := range keys {
		spec := RuleSpec{Limit: ruleOf(string(rune('a'+i)), 5), Key: k}
		if i%3 == 2 {
			spec.Limit.Mode = fastlimit.Shadow
		}
		if i%2 == 0 {
			spec.Limit.Strict, spec.Limit.IPv6Prefix = false, 128
			spec.Match = Match{Hosts: []string{"*.com"}, Paths: []string{"/x", "*lo*in"}, Methods: []string{"POST", "GET"}}
		}
		s.Rules = append(s.Rules, spec)
	}
	return s
}

// Not parallel, and nor are the others here: AllocsPerRun counts the
// allocations of the whole process.
func TestDecideDoesNotAllocate(t *testing.T) {
	settings := everyKey()
	all := mustEngine(t, settings)
	listed := mustEngine(t, Settings{Rules: settings.Rules, Allow: prefixes("192.0.2.0/24"), Deny: prefixes("2001:db8::/32")})
	banned := all.WithBans((*Bans)(nil).With(mustBan(t, "192.0.2.0/24"), time.Now().Add(time.Hour)).
		With(mustBan(t, "2001:db8::/32"), time.Now().Add(time.Hour)).With(mustBan(t, "2001:db8::/48"), time.Now()))
	ctx := t.Context()
	for _, client := range []string{"192.0.2.1", "2001:db8::1", "::ffff:192.0.2.2"} {
		r := liveRequest(client)
		var s Scratch
		wantNoAllocs(t, "all rules, "+client, func() { all.Decide(ctx, r, &s); s.Applied() })
		if n := len(s.Applied()); n != len(settings.Rules) {
			t.Errorf("%d rules applied, want %d", n, len(settings.Rules))
		}
		wantNoAllocs(t, "at a time, "+client, func() { all.Decide(ctx, r, &s) })
		wantNoAllocs(t, "listed, "+client, func() { listed.Decide(ctx, r, &s) })
		wantNoAllocs(t, "banned, "+client, func() { banned.Decide(ctx, r, &s) })
	}
	for _, spec := range settings.Rules {
		e := mustEngine(t, Settings{Rules: []RuleSpec{spec}})
		r := liveRequest("2001:db8::1")
		var s Scratch
		wantNoAllocs(t, "rule "+spec.Limit.Name, func() { e.Decide(ctx, r, &s) })
		if len(s.Applied()) != 1 {
			t.Errorf("rule %s did not apply", spec.Limit.Name)
		}
	}
}

// A scratch that has been through the larger engine fits the smaller one.
func TestScratchFitsAnyEngine(t *testing.T) {
	large := mustEngine(t, everyKey())
	small := mustEngine(t, Settings{Rules: everyKey().Rules[5:6]})
	r := liveRequest("192.0.2.1")
	var s Scratch
	large.Decide(t.Context(), r, &s)
	ctx := t.Context()
	wantNoAllocs(t, "two engines", func() {
		small.Decide(ctx, r, &s)
		large.Decide(ctx, r, &s)
	})
	if n := len(s.Applied()); n != 10 {
		t.Errorf("%d rules applied, want 10", n)
	}
	// Rare growth would be no allocation on average.
	if cap(s.parts) > 64 || cap(s.addrs) > 256 || cap(s.charges) > 32 || cap(s.values) > 32 {
		t.Errorf("the scratch grows: %d parts, %d bytes of addresses, %d charges, %d fields",
			cap(s.parts), cap(s.addrs), cap(s.charges), cap(s.values))
	}
}

func TestParsersDoNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 256)
	for _, target := range []string{"/", "/a/../b//%41%2f?x", "http://h/x", "*", "/%zz"} {
		raw := []byte(target)
		wantNoAllocs(t, "AppendPath "+target, func() { AppendPath(buf, raw) })
	}
	for _, host := range []string{"Example.com:80", "[2001:DB8::1]:443", "a..b", ""} {
		raw := []byte(host)
		wantNoAllocs(t, "AppendHost "+host, func() { AppendHost(buf, raw) })
	}
	peer := netip.MustParseAddr("10.0.0.1")
	stranger := netip.MustParseAddr("192.0.2.1")
	var h ProxyHint
	wantNoAllocs(t, "Note", func() { h.Note(peer, false, true) })
	for _, tc := range []struct{ header, value string }{
		{"X-Forwarded-For", "1.1.1.1, 198.51.100.1:80, 10.0.0.2"},
		{"X-Forwarded-For", `"[2001:db8::1%eth0]:80", ::ffff:10.0.0.2`},
		{"Forwarded", `for=1.1.1.1, proto=http;for="[2001:db8::1]:80", for=10.0.0.2`},
	} {
		id := mustIdentity(t, tc.header, "10.0.0.0/8")
		values := instances("198.51.100.7", tc.value)
		wantNoAllocs(t, tc.value, func() {
			id.Trusted(peer)
			id.Client(peer, values)
			id.Client(stranger, values)
		})
		text := []string{"198.51.100.7", tc.value}
		wantNoAllocs(t, tc.value+" as a string", func() { id.ClientString(peer, text) })
		if _, from := id.Client(peer, values); from != ClientFromHeader {
			t.Errorf("%s: the header named nobody", tc.value)
		}
	}
}
