package nat64

import (
	"net/netip"
	"testing"
)

func TestClient(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"64:ff9b::192.0.2.7":   "192.0.2.7",
		"64:ff9b::8.8.8.8":     "8.8.8.8",
		"64:ff9b::10.0.0.1":    "64:ff9b::a00:1",
		"64:ff9b::127.0.0.1":   "64:ff9b::7f00:1",
		"64:ff9b::169.254.0.1": "64:ff9b::a9fe:1",
		"64:ff9b::224.0.0.1":   "64:ff9b::e000:1",
		"64:ff9b::":            "64:ff9b::",
		"64:ff9b::1:0:0":       "64:ff9b::1:0:0",
		"64:ff9b:1::8.8.8.8":   "64:ff9b:1::808:808", // of a network's own, RFC 8215
		"2001:db8::8.8.8.8":    "2001:db8::808:808",
		"192.0.2.7":            "192.0.2.7",
		"::ffff:192.0.2.7":     "::ffff:192.0.2.7",
	} {
		if got := Client(netip.MustParseAddr(addr)); got.String() != netip.MustParseAddr(want).String() {
			t.Errorf("%s is %v, want %s", addr, got, want)
		}
	}
	if got := Client(netip.Addr{}); got.IsValid() {
		t.Errorf("nobody is %v", got)
	}
}
