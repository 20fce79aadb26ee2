package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

func prefixes(list ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

func mustIdentity(t testing.TB, header string, trusted ...string) *Identity {
	t.Helper()
	id, err := NewIdentity(Settings{TrustedProxies: prefixes(trusted...), ClientIPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func instances(list ...string) [][]byte {
	var all [][]byte
	for _, v := range list {
		all = append(all, []byte(v))
	}
	return all
}

type clientCase struct {
	name, peer string
	values     []string
	want       string
	named      bool
}

func runClientCases(t *testing.T, id *Identity, cases []clientCase) {
	t.Helper()
	for _, tc := range cases {
		peer := netip.MustParseAddr(tc.peer)
		want := ClientUnnamed
		switch {
		case tc.named:
			want = ClientFromHeader
		case !id.Trusted(peer):
			want = ClientFromPeer
		}
		got, from := id.Client(peer, instances(tc.values...))
		if got.String() != tc.want || from != want {
			t.Errorf("%s: Client(%s, %q) = %v, %v, want %s, %v", tc.name, tc.peer, tc.values, got, from, tc.want, want)
		}
		if same, sameFrom := id.ClientString(peer, tc.values); same != got || sameFrom != from {
			t.Errorf("%s: ClientString = %v, %v, and Client %v, %v", tc.name, same, sameFrom, got, from)
		}
	}
}

func TestClient(t *testing.T) {
	t.Parallel()
	id := mustIdentity(t, "", "10.0.0.0/8", "fd00::/8", "::ffff:172.16.0.0/108")
	many := func(n int) string { return strings.TrimSuffix(strings.Repeat("10.0.0.9,", n), ",") }
	runClientCases(t, id, []clientCase{
		{"untrusted peer", "192.0.2.1", []string{"198.51.100.1"}, "192.0.2.1", false},
		{"mapped untrusted peer", "::ffff:192.0.2.1", []string{"198.51.100.1"}, "192.0.2.1", false},
		{"peer with a zone", "fe80::1%eth0", nil, "fe80::1", false},
		{"peer behind a translator", "64:ff9b::198.51.100.1", nil, "198.51.100.1", false},
		{"a translator is no trusted proxy", "64:ff9b::10.0.0.1", []string{"198.51.100.1"}, "64:ff9b::a00:1", false},
		{"element behind a translator", "10.0.0.1", []string{"1.1.1.1, 64:ff9b::198.51.100.1"}, "198.51.100.1", true},
		{"no header", "10.0.0.1", nil, "10.0.0.1", false},
		{"one element", "10.0.0.1", []string{"198.51.100.1"}, "198.51.100.1", true},
		{"mapped trusted peer", "::ffff:10.0.0.1", []string{"198.51.100.1"}, "198.51.100.1", true},
		{"trusted by a mapped prefix", "172.16.0.1", []string{"198.51.100.1"}, "198.51.100.1", true},
		{"rightmost untrusted", "10.0.0.1", []string{"203.0.113.9, 198.51.100.1, 10.0.0.2,10.0.0.3"}, "198.51.100.1", true},
		{"spoofed on the left", "10.0.0.1", []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1", true},
		{"several instances", "10.0.0.1", []string{"1.1.1.1", "198.51.100.1", "10.0.0.2"}, "198.51.100.1", true},
		{"all trusted", "10.0.0.1", []string{"10.0.0.4, 10.0.0.3"}, "10.0.0.4", true},
		{"garbage last", "10.0.0.1", []string{"198.51.100.1, nonsense"}, "10.0.0.1", false},
		{"garbage behind a trusted hop", "10.0.0.1", []string{"198.51.100.1, nonsense, 10.0.0.3"}, "10.0.0.3", false},
		{"empty element", "10.0.0.1", []string{"198.51.100.1, "}, "10.0.0.1", false},
		{"empty instance", "10.0.0.1", []string{"198.51.100.1", ""}, "10.0.0.1", false},
		{"unspecified element", "10.0.0.1", []string{"198.51.100.1, 0.0.0.0, 10.0.0.2"}, "10.0.0.2", false},
		{"mapped unspecified element", "10.0.0.1", []string{"::ffff:0.0.0.0"}, "10.0.0.1", false},
		{"port", "10.0.0.1", []string{"198.51.100.1:4711"}, "198.51.100.1", true},
		{"IPv6", "fd00::1", []string{"2001:db8::7"}, "2001:db8::7", true},
		{"IPv6 and port", "fd00::1", []string{"[2001:db8::7]:4711"}, "2001:db8::7", true},
		{"IPv6 in brackets", "fd00::1", []string{"[2001:db8::7]"}, "2001:db8::7", true},
		{"zone", "fd00::1", []string{"fe80::7%eth0, fd00::2%1"}, "fe80::7", true},
		{"mapped element", "fd00::1", []string{"::ffff:198.51.100.1"}, "198.51.100.1", true},
		{"mapped trusted element", "fd00::1", []string{"198.51.100.1, ::ffff:10.1.1.1"}, "198.51.100.1", true},
		{"quotes", "10.0.0.1", []string{`"198.51.100.1"`}, "198.51.100.1", true},
		{"a comma in quotes separates", "10.0.0.1", []string{`"1.1.1.1,198.51.100.1`}, "198.51.100.1", true},
		{"the 32nd element", "10.0.0.1", []string{"198.51.100.1," + many(31)}, "198.51.100.1", true},
		{"the 33rd element", "10.0.0.1", []string{"198.51.100.1," + many(32)}, "10.0.0.9", false},
		{"within 4 KiB", "10.0.0.1", []string{"198.51.100.1" + strings.Repeat(" ", maxScan-12)}, "198.51.100.1", true},
		{"beyond 4 KiB", "10.0.0.1", []string{"198.51.100.1" + strings.Repeat(" ", maxScan-11)}, "10.0.0.1", false},
		{"beyond 4 KiB in all", "10.0.0.1", []string{"198.51.100.1", "10.0.0.2" + strings.Repeat(" ", maxScan-8)}, "10.0.0.2", false},
	})
}

func TestClientForwarded(t *testing.T) {
	t.Parallel()
	id := mustIdentity(t, "forwarded", "10.0.0.0/8", "fd00::/8")
	runClientCases(t, id, []clientCase{
		{"untrusted peer", "192.0.2.1", []string{"for=198.51.100.1"}, "192.0.2.1", false},
		{"token", "10.0.0.1", []string{"for=198.51.100.1"}, "198.51.100.1", true},
		{"case and parameters", "10.0.0.1", []string{"proto=http;FOR=198.51.100.1;by=10.0.0.1"}, "198.51.100.1", true},
		{"IPv6", "10.0.0.1", []string{`For="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::17", true},
		{"quoted port", "10.0.0.1", []string{`for="198.51.100.1:80"`}, "198.51.100.1", true},
		{"obfuscated port", "10.0.0.1", []string{`for="198.51.100.1:_x1"`}, "198.51.100.1", true},
		{"chain", "10.0.0.1", []string{"for=1.1.1.1, for=198.51.100.1;proto=https", "for=10.0.0.2"}, "198.51.100.1", true},
		{"empty pairs", "10.0.0.1", []string{";for=198.51.100.1; ;"}, "198.51.100.1", true},
		{"unknown", "10.0.0.1", []string{"for=198.51.100.1, for=unknown, for=10.0.0.2"}, "10.0.0.2", false},
		{"obfuscated", "10.0.0.1", []string{"for=198.51.100.1, for=_hidden"}, "10.0.0.1", false},
		{"no for", "10.0.0.1", []string{"for=198.51.100.1, by=10.0.0.3"}, "10.0.0.1", false},
		{"two of for", "10.0.0.1", []string{"for=198.51.100.1;for=198.51.100.2"}, "10.0.0.1", false},
		{"no value", "10.0.0.1", []string{"for"}, "10.0.0.1", false},
		{"not a parameter", "10.0.0.1", []string{"for=198.51.100.1;x"}, "10.0.0.1", false},
		{"plain address", "10.0.0.1", []string{"198.51.100.1"}, "10.0.0.1", false},
		{"comma in quotes", "10.0.0.1", []string{`for=198.51.100.1;x="a,b;for=1.1.1.1"`}, "198.51.100.1", true},
		{"escaped quote", "10.0.0.1", []string{`for=198.51.100.1;x="a\",for=1.1.1.1"`}, "198.51.100.1", true},
		{"escaped quote in the last element", "10.0.0.1", []string{`for=1.1.1.1, for=198.51.100.1;x="a\",b"`}, "198.51.100.1", true},
		{"escaped backslash", "10.0.0.1", []string{`for=1.1.1.1;x="a\\",for=198.51.100.1`}, "198.51.100.1", true},
		{"open quote on the left", "10.0.0.1", []string{`for="1.1.1.1, for=198.51.100.1`}, "198.51.100.1", true},
		{"open quote in an instance on the left", "10.0.0.1", []string{`for="`, "for=198.51.100.1"}, "198.51.100.1", true},
		{"open quote in the element", "10.0.0.1", []string{`for="198.51.100.1`}, "10.0.0.1", false},
		{"open quote in another parameter", "10.0.0.1", []string{`for=198.51.100.1;x="a`}, "10.0.0.1", false},
		{"escape in an address", "10.0.0.1", []string{`for="198.51.100\.1"`}, "10.0.0.1", false},
	})
}

func TestClientWithoutProxies(t *testing.T) {
	t.Parallel()
	id := mustIdentity(t, "")
	runClientCases(t, id, []clientCase{{"nobody is trusted", "127.0.0.1", []string{"1.1.1.1"}, "127.0.0.1", false}})
	if id.Trusted(netip.MustParseAddr("127.0.0.1")) {
		t.Error("127.0.0.1 is trusted, want nobody")
	}
	if got := id.Header(); got != "X-Forwarded-For" {
		t.Errorf("Header() = %q", got)
	}
}

func TestClientRefusesPeer(t *testing.T) {
	t.Parallel()
	id := mustIdentity(t, "", "0.0.0.0/0", "::/0")
	for _, peer := range []netip.Addr{
		{},
		netip.IPv4Unspecified(), netip.IPv6Unspecified(),
		netip.MustParseAddr("::ffff:0.0.0.0"), netip.IPv6Unspecified().WithZone("eth0"),
	} {
		if got, from := id.Client(peer, instances("198.51.100.1")); from != ClientNoAddress || got.IsValid() {
			t.Errorf("Client(%v) = %v, %v, want it refused", peer, got, from)
		}
	}
}

func TestTrusted(t *testing.T) {
	t.Parallel()
	id := mustIdentity(t, "", "10.0.0.0/8", "fe80::/10")
	for peer, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "fe80::1%eth0": true, "11.0.0.1": false, "::": false,
	} {
		if got := id.Trusted(netip.MustParseAddr(peer)); got != want {
			t.Errorf("Trusted(%s) = %v, want %v", peer, got, want)
		}
	}
	if id.Trusted(netip.Addr{}) {
		t.Error("the invalid address is trusted")
	}
}

func TestNewIdentityRefuses(t *testing.T) {
	t.Parallel()
	_, err := NewIdentity(Settings{
		ClientIPHeader:  "X Real IP",
		OriginalRequest: OriginalXForwarded + 1,
		TrustedProxies:  []netip.Prefix{{}, netip.MustParsePrefix("::ffff:10.0.0.0/8")},
	})
	for _, want := range []string{`"X Real IP"`, "OriginalRequest: 3: there is no such header family", "invalid prefix", "10.0.0.0/8"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: does not say %s", err, want)
		}
	}
}

func TestOriginalRequestHeaders(t *testing.T) {
	t.Parallel()
	for o, want := range map[OriginalRequest]originalHeaders{
		OriginalNone:       {},
		OriginalXOriginal:  {"X-Original-Method", "X-Original-Uri", ""},
		OriginalXForwarded: {"X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host"},
	} {
		if got := originalNames[o]; got != want {
			t.Errorf("Headers of %d = %q, want %q", o, got, want)
		}
	}
}

func TestProxyHint(t *testing.T) {
	t.Parallel()
	var h ProxyHint
	for _, tc := range []struct {
		peer               string
		trusted, forwarded bool
		warn               bool
	}{
		{"127.0.0.1", false, false, false},
		{"127.0.0.1", true, true, false},
		{"198.51.100.1", false, true, false},
		{"::ffff:127.0.0.1", false, true, true}, // the first
		{"127.0.0.1", false, true, false},
		{"10.0.0.1", false, true, false},
		{"fe80::1%eth0", false, true, false},
	} {
		if got := h.Note(netip.MustParseAddr(tc.peer), tc.trusted, tc.forwarded); got != tc.warn {
			t.Errorf("Note(%s, %v, %v) = %v", tc.peer, tc.trusted, tc.forwarded, got)
		}
	}
	if got := h.Count(); got != 4 {
		t.Errorf("Count() = %d, want 4", got)
	}
	if got := fmt.Sprint(h.Peers()); got != "[127.0.0.1 10.0.0.1 fe80::1]" {
		t.Errorf("Peers() = %s", got)
	}
	var all sync.WaitGroup
	for i := range byte(50) {
		all.Go(func() { h.Note(netip.AddrFrom4([4]byte{10, 1, 1, i}), false, true) })
	}
	if all.Wait(); len(h.Peers()) != hintedPeers || h.Count() != 54 {
		t.Errorf("%d of 54 are named", len(h.Peers()))
	}
}
