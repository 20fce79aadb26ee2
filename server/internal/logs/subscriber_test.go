package logs

import (
	"net/netip"
	"testing"
)

func TestSubscriber(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "2001:db8::1:2:3:4": "2001:db8::", "64:ff9b::198.51.100.7": "198.51.100.7", "64:ff9b::10.0.0.1": "64:ff9b::",
	} {
		if got := Subscriber(netip.MustParseAddr(addr)); got.String() != want {
			t.Errorf("%s is of %v, want %s", addr, got, want)
		}
	}
	if got := Subscriber(netip.Addr{}); got.IsValid() {
		t.Errorf("nobody is %v", got)
	}
}
