package config

import (
	"net/netip"
	"testing"
)

func TestOverlap(t *testing.T) {
	t.Parallel()
	names := resolver(func(host string) (netip.Addr, bool) {
		return netip.MustParseAddr("10.0.0.1"), host == "edge.example"
	})
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"127.0.0.1:80", "127.0.0.1:80", true},
		{"127.0.0.1:80", "127.0.0.1:81", false},
		{"127.0.0.1:0", "127.0.0.1:0", false},
		{"127.0.0.1:80", "127.0.0.2:80", false},
		{"localhost:80", "127.0.0.1:80", true},
		{"localhost:80", "[::1]:80", false}, // a listener takes the first IPv4 address
		{":80", "127.0.0.1:80", true},
		{":80", "[::1]:80", true},
		{"[::]:80", "10.0.0.1:80", true},
		{"[::]:80", "0.0.0.0:80", true},
		{"0.0.0.0:80", "localhost:80", true},
		{"0.0.0.0:80", "[::1]:80", false},
		{"edge.example:80", "10.0.0.1:80", true},
		{"edge.example:80", "0.0.0.0:80", true},
		{"edge.example:80", "10.0.0.2:80", false},
		{"other.example:80", "10.0.0.1:80", false}, // nobody knows it
		{"other.example:80", "other.example:80", true},
	} {
		if got := overlap(tt.a, tt.b, names); got != tt.want {
			t.Errorf("%s and %s: %v", tt.a, tt.b, got)
		}
		if got := overlap(tt.b, tt.a, names); got != tt.want {
			t.Errorf("%s and %s: %v", tt.b, tt.a, got)
		}
	}
	if overlap("edge.example:80", "10.0.0.1:80", nil) {
		t.Error("a name that nobody looked up")
	}
}
