package policy

import (
	"net"
	"net/netip"
	"testing"
)

// wire is what a request brings: headers and cookies by name, all values of each.
type wire map[string][]string

func (w wire) Header(name string) [][]byte { return instances(w[name]...) }
func (w wire) Cookie(name string) [][]byte { return instances(w["cookie "+name]...) }

// assembled is what Assemble made of a request, for comparison.
type assembled struct {
	from                       AssembleResult
	client, method, host, path string
	unnamed                    bool
}

func assemble(e *Engine, id *Identity, in Incoming) assembled {
	var s Scratch
	var r Request
	a := assembled{from: e.Assemble(id, &in, &s, &r), method: string(r.Method), host: string(r.Host), path: string(r.Path), unnamed: r.SkipIPRules}
	if r.Client.IsValid() {
		a.client = r.Client.String()
	}
	return a
}

func TestAssemble(t *testing.T) {
	t.Parallel()
	const stranger, proxy = "192.0.2.1", "10.0.0.1"
	e := mustEngine(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("keyed", 5), Key: key(byHeader, byCookie)}}})
	xff := func(v ...string) wire { return wire{"X-Forwarded-For": v} }
	with := func(w wire, name string, values ...string) wire {
		w[name] = values
		return w
	}
	trusted := AssembleResult{Trusted: true}
	for _, tc := range []struct {
		name               string
		original           OriginalRequest
		unnamed            UnnamedAction
		peer, target, host string
		fields             Fields
		want               assembled
	}{
		{"plain", 0, 0, stranger, "/a//%62?q", "Example.com:80", xff("1.1.1.1"), assembled{AssembleResult{}, stranger, "GET", "example.com", "/a/b", false}},
		{"no fields", 0, 0, stranger, "/", "", nil, assembled{AssembleResult{}, stranger, "GET", "", "/", false}},
		{"mapped peer", 0, 0, "::ffff:192.0.2.1", "/", "", nil, assembled{AssembleResult{}, stranger, "GET", "", "/", false}},
		{"URL", 0, 0, stranger, "http://B.example/x", "a.example", nil, assembled{AssembleResult{}, stranger, "GET", "b.example", "/x", false}},
		{"proxied", 0, 0, proxy, "/", "h", xff("1.1.1.1, 198.51.100.1"), assembled{trusted, "198.51.100.1", "GET", "h", "/", false}},
		{"proxied without fields", 0, 0, proxy, "/", "h", nil, assembled{AssembleResult{Trusted: true, NoClient: true}, proxy, "GET", "h", "/", false}},

		{"no address", 0, 0, "0.0.0.0", "/", "h", nil, assembled{from: AssembleResult{Refused: RefusedPeer}}},
		{"target", 0, 0, stranger, "x", "h", nil, assembled{AssembleResult{Refused: RefusedTarget}, stranger, "GET", "h", "", false}},
		{"host", 0, 0, stranger, "/", "a..b", nil, assembled{AssembleResult{Refused: RefusedHost}, stranger, "GET", "", "/", false}},
		{"target before host", 0, 0, stranger, "/%", "a..b", nil, assembled{AssembleResult{Refused: RefusedTarget}, stranger, "GET", "", "", false}},
		{"Host beside a URL", 0, 0, stranger, "http://b/", "a..b", nil, assembled{AssembleResult{Refused: RefusedHost}, stranger, "GET", "b", "/", false}},
		{"header twice", 0, 0, stranger, "/", "h", wire{"X-Api-Key": {"k", "k"}}, assembled{AssembleResult{Refused: RefusedRepeated}, stranger, "GET", "h", "/", false}},
		{"cookie twice", 0, 0, stranger, "/", "h", wire{"cookie sid": {"a", "b"}}, assembled{AssembleResult{Refused: RefusedRepeated}, stranger, "GET", "h", "/", false}},
		{"host before repeated", 0, 0, stranger, "/", "a..b", wire{"cookie sid": {"a", "b"}}, assembled{AssembleResult{Refused: RefusedHost}, stranger, "GET", "", "/", false}},
		{"others twice", 0, 0, stranger, "/", "h", wire{"Accept": {"a", "b"}}, assembled{AssembleResult{}, stranger, "GET", "h", "/", false}},

		{
			"x-original", OriginalXOriginal, 0, proxy, "/auth", "h", with(with(xff("198.51.100.1"), "X-Original-Method", "PUT"), "X-Original-Uri", "/a?b"),
			assembled{trusted, "198.51.100.1", "PUT", "h", "/a", false},
		},
		{
			"x-original of a stranger", OriginalXOriginal, 0, stranger, "/auth", "h", with(xff("1.1.1.1"), "X-Original-Uri", "/a"),
			assembled{AssembleResult{}, stranger, "GET", "h", "/auth", false},
		},
		{
			"x-forwarded", OriginalXForwarded, 0, proxy, "http://b/auth", "h", with(with(xff("198.51.100.1"), "X-Forwarded-Host", "C:1"), "X-Forwarded-Uri", "/a"),
			assembled{trusted, "198.51.100.1", "GET", "c", "/a", false},
		},
		{
			"empty headers", OriginalXForwarded, 0, proxy, "/auth", "h", with(with(with(xff("198.51.100.1"), "X-Forwarded-Host", ""), "X-Forwarded-Method", ""), "X-Forwarded-Uri", "/a"),
			assembled{trusted, "198.51.100.1", "GET", "h", "/a", false},
		},
		{
			"Host beside X-Forwarded-Host", OriginalXForwarded, 0, proxy, "/", "a..b", with(with(xff("198.51.100.1"), "X-Forwarded-Host", "c"), "X-Forwarded-Uri", "/a"),
			assembled{AssembleResult{Refused: RefusedHost, Trusted: true}, "198.51.100.1", "GET", "c", "/a", false},
		},
		{
			"named twice", OriginalXForwarded, UnnamedDeny, proxy, "/", "h", with(xff("unknown"), "X-Forwarded-Uri", "/a", "/b"),
			assembled{AssembleResult{Refused: RefusedTarget, Trusted: true}, proxy, "GET", "", "", false},
		},

		{"unnamed peer", 0, UnnamedPeer, proxy, "/", "h", xff("unknown"), assembled{AssembleResult{Trusted: true, NoClient: true}, proxy, "GET", "h", "/", false}},
		{"unnamed skip", 0, UnnamedSkip, proxy, "/", "h", xff("unknown"), assembled{AssembleResult{Trusted: true, NoClient: true}, "", "GET", "h", "/", true}},
		{"unnamed deny", 0, UnnamedDeny, proxy, "/%", "h", xff("unknown"), assembled{AssembleResult{Refused: RefusedUnnamed, Trusted: true, NoClient: true}, proxy, "GET", "", "", false}},
		{
			"request unnamed, skip", OriginalXOriginal, UnnamedSkip, proxy, "/auth", "h", xff("198.51.100.1"),
			assembled{AssembleResult{Trusted: true, NoRequest: true}, "198.51.100.1", "GET", "h", "/auth", true},
		},
		{
			"request unnamed, deny", OriginalXOriginal, UnnamedDeny, proxy, "/auth", "h", with(xff("198.51.100.1"), "X-Original-Uri", ""),
			assembled{AssembleResult{Refused: RefusedUnnamed, Trusted: true, NoRequest: true}, "198.51.100.1", "GET", "", "", false},
		},
	} {
		id, err := NewIdentity(Settings{TrustedProxies: prefixes("10.0.0.0/8"), OriginalRequest: tc.original, OnUnnamed: tc.unnamed})
		if err != nil {
			t.Fatal(err)
		}
		in := Incoming{Peer: netip.MustParseAddr(tc.peer), Method: []byte("GET"), Target: []byte(tc.target), Host: []byte(tc.host), Fields: tc.fields}
		if got := assemble(e, id, in); got != tc.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tc.name, got, tc.want)
		}
	}
}

// Keys are made of what Assemble has looked up, and each is looked up once.
func TestFieldsAreLookedUpOnce(t *testing.T) {
	t.Parallel()
	e := mustEngine(t, Settings{Rules: []RuleSpec{
		{Limit: ruleOf("a", 5), Key: key(byHeader)},
		{Limit: ruleOf("b", 5), Key: []KeyPart{{Kind: KeyHeader, Name: "x-api-key"}, byCookie}},
	}})
	n := counted{Fields: wire{"X-Api-Key": {"k"}, "cookie sid": {"s"}}}
	var s Scratch
	var r Request
	e.Assemble(new(Identity), &Incoming{Peer: netip.MustParseAddr("192.0.2.1"), Target: []byte("/"), Fields: &n}, &s, &r)
	e.Decide(t.Context(), &r, &s)
	if applied := s.Applied(); len(applied) != 2 || n.lookups != 2 {
		t.Errorf("%d rules applied after %d lookups, want 2 and 2", len(applied), n.lookups)
	}
	// Another engine does not take them for its own.
	other := mustEngine(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("c", 5), Key: key(byCookie)}}})
	other.Decide(t.Context(), &r, &s)
	want, _ := other.KeyFromText(other.rules[0].limit, []string{"s"})
	if applied := s.Applied(); len(applied) != 1 || string(applied[0].Rule.AppendKey(nil, applied[0].Key)) != string(applied[0].Rule.AppendKey(nil, want)) {
		t.Errorf("another engine applied %v", applied)
	}
}

type counted struct {
	Fields
	lookups int
}

func (c *counted) Header(name string) [][]byte {
	c.lookups++
	return c.Fields.Header(name)
}

func (c *counted) Cookie(name string) [][]byte {
	c.lookups++
	return c.Fields.Cookie(name)
}

func TestAssembleDoesNotAllocate(t *testing.T) {
	e := mustEngine(t, everyKey())
	id, err := NewIdentity(Settings{TrustedProxies: prefixes("10.0.0.0/8"), OriginalRequest: OriginalXForwarded})
	if err != nil {
		t.Fatal(err)
	}
	fields := &constFields{header: instances("198.51.100.1"), cookie: instances("s1")}
	for _, peer := range []string{"10.0.0.1", "192.0.2.1"} {
		in := &Incoming{Peer: netip.MustParseAddr(peer), Method: []byte("GET"), Target: []byte("http://A/a//b"), Host: []byte("A:80"), Fields: fields}
		var s Scratch
		var r Request
		wantNoAllocs(t, peer, func() { e.Assemble(id, in, &s, &r) })
		wantNoAllocs(t, peer+" without fields", func() {
			bare := *in
			bare.Fields = nil
			e.Assemble(id, &bare, &s, &r)
		})
	}
}

func TestPeerAddr(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		peer net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, "192.0.2.1"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}, "fe80::1"},
		{&net.TCPAddr{}, "invalid IP"},
		{&net.UnixAddr{Name: "@"}, "invalid IP"},
		{nil, "invalid IP"},
	} {
		if got := PeerAddr(tc.peer); got.String() != tc.want {
			t.Errorf("PeerAddr(%v) = %v, want %s", tc.peer, got, tc.want)
		}
	}
}

func BenchmarkAssemble(b *testing.B) {
	e := mustEngine(b, Settings{Rules: []RuleSpec{{Limit: ruleOf("a", 5), Key: key(byIP)}}})
	id := mustIdentity(b, "", "10.0.0.0/8")
	for _, bc := range []struct{ name, peer string }{{"stranger", "192.0.2.1"}, {"proxied", "10.0.0.1"}} {
		in := &Incoming{
			Peer: netip.MustParseAddr(bc.peer), Method: []byte("GET"), Target: []byte("/path?query"), Host: []byte("www.example.com"),
			Fields: &constFields{header: instances("198.51.100.1")},
		}
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			var s Scratch
			var r Request
			for b.Loop() {
				e.Assemble(id, in, &s, &r)
			}
		})
	}
}
