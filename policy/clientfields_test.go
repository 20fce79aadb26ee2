package policy

import (
	"net/netip"
	"testing"
)

// TestClientFields has a row for each trap of "Who is the client" in docs/configuration.md.
// 10.0.0.0/8 are proxies, 203.0.113.9 is what a client makes up.
func TestClientFields(t *testing.T) {
	t.Parallel()
	single := []string{
		"X-Real-IP", "CF-Connecting-IP", "CF-Connecting-IPv6", "CF-Pseudo-IPv4", "True-Client-IP", "Fastly-Client-IP", "Fly-Client-IP",
		"DO-Connecting-IP", "X-Azure-ClientIP", "X-Appengine-User-IP", "X-Envoy-External-Address", "X-Client-IP", "x-REAL-ip",
	}
	for _, header := range single {
		runClientCases(t, mustIdentity(t, header, "10.0.0.0/8"), []clientCase{
			{"it names the client", "10.0.0.1", []string{"198.51.100.1"}, "198.51.100.1", true},
			{"IPv6", "10.0.0.1", []string{"2001:db8::7"}, "2001:db8::7", true},
			{"past the CDN, straight to the origin", "192.0.2.1", []string{"203.0.113.9"}, "192.0.2.1", false},
			{"the proxy does not set it", "10.0.0.1", nil, "10.0.0.1", false},
			{"the proxy adds a line instead of replacing", "10.0.0.1", []string{"203.0.113.9", "198.51.100.1"}, "10.0.0.1", false},
			{"the same, in the other order", "10.0.0.1", []string{"198.51.100.1", "203.0.113.9"}, "10.0.0.1", false},
			{"a list", "10.0.0.1", []string{"203.0.113.9, 198.51.100.1"}, "10.0.0.1", false},
			{"a list of one and nothing", "10.0.0.1", []string{"198.51.100.1,"}, "10.0.0.1", false},
			{"empty", "10.0.0.1", []string{""}, "10.0.0.1", false},
			{"not an address", "10.0.0.1", []string{"unknown"}, "10.0.0.1", false},
			{"a proxy asks itself", "10.0.0.1", []string{"10.0.0.2"}, "10.0.0.2", true},
		})
	}
	// Chains keep what they mean, whoever writes them and by whatever name.
	for _, header := range []string{"X-Forwarded-For", "", "X-Our-Chain"} {
		runClientCases(t, mustIdentity(t, header, "10.0.0.0/8"), []clientCase{
			{"the client begins the chain", "10.0.0.1", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1", true},
			{"on a line of its own", "10.0.0.1", []string{"203.0.113.9", "198.51.100.1, 10.0.0.2"}, "198.51.100.1", true},
			{"a proxy in front that is not trusted", "10.0.0.1", []string{"198.51.100.1, 192.0.2.8"}, "192.0.2.8", true},
		})
	}
	runClientCases(t, mustIdentity(t, "Forwarded", "10.0.0.0/8"), []clientCase{
		{"hidden by the proxy", "10.0.0.1", []string{"for=_gazonk"}, "10.0.0.1", false},
		{"not known to the proxy", "10.0.0.1", []string{"for=unknown;proto=http"}, "10.0.0.1", false},
		{"IPv6 with a port, in quotes", "10.0.0.1", []string{`for="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::17", true},
		{"the client begins the chain", "10.0.0.1", []string{"for=203.0.113.9, for=198.51.100.1;by=10.0.0.1"}, "198.51.100.1", true},
		{"on a line of its own", "10.0.0.1", []string{"for=203.0.113.9", "for=198.51.100.1"}, "198.51.100.1", true},
		{"hidden in front of a trusted hop", "10.0.0.1", []string{"for=198.51.100.1, for=_a, for=10.0.0.3"}, "10.0.0.3", false},
		{"a quote that the client leaves open", "10.0.0.1", []string{`for="203.0.113.9, for=198.51.100.1`}, "198.51.100.1", true},
		{"no for", "10.0.0.1", []string{"by=10.0.0.1;proto=https"}, "10.0.0.1", false},
	})
}

// A single field costs a request no allocation, whatever is in it.
func TestClientFieldsDoNotAllocate(t *testing.T) {
	id, peer := mustIdentity(t, "X-Real-IP", "10.0.0.0/8"), netip.MustParseAddr("10.0.0.1")
	for _, values := range [][][]byte{instances("198.51.100.1"), instances("203.0.113.9", "198.51.100.1"), nil} {
		if n := testing.AllocsPerRun(100, func() { id.Client(peer, values) }); n > 0 {
			t.Errorf("%q: %v allocations", values, n)
		}
	}
}
