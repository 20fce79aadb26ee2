package server

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server/internal/expel"
)

// TestProtects: what many clients come through, or the operator, is hardly meant to be banned.
func TestProtects(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")}
	s := start(t, set, func(c *Config) {
		c.machine = func() (expel.Machine, error) {
			return expel.Machine{Own: []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("::1")}, Gateways: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}, nil
		}
		c.Listeners = append(c.Listeners, Listener{Address: "127.0.0.1:0", ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")}})
	})
	get(t, "http://"+s.addr+"/", "X-Forwarded-For", "203.0.113.7")
	for prefix, want := range map[string]string{
		"10.0.0.5/32": "an address of this machine", "10.0.0.0/29": "an address of this machine", "::/16": "an address of this machine",
		"10.0.0.1/32": "a gateway", "192.0.2.8/32": "a trusted proxy", "192.0.0.0/16": "a trusted proxy",
		"10.1.0.0/28": "sends PROXY headers", "10.1.0.0/16": "sends PROXY headers",
		"127.0.0.1/32": "not in trusted_proxies", "127.0.0.0/24": "not in trusted_proxies",
		"10.0.0.6/32": "", "192.0.2.16/28": "", "2001:db8::/32": "", "127.0.0.9/32": "",
	} {
		if got := s.Protects(netip.MustParsePrefix(prefix)); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", prefix, got, want)
		}
	}
}
