package engine

import (
	"net/netip"
	"testing"
	"time"
)

// A clone names the same client after what the key borrows has changed.
func TestClone(t *testing.T) {
	t.Parallel()
	r := mustNew(t, rule("a", 1, time.Hour, 1)).rules[0]
	path := []byte("/login")
	key := r.BytesKey([]byte("alice"), path)
	clone := key.Clone()
	copy(path, "/xxxxx")
	if got := string(r.AppendKey(nil, clone)); got != "alice /login" {
		t.Errorf("the clone is %q", got)
	}
	if clone.digest() != key.digest() {
		t.Error("the clone is another client")
	}
	if k := r.AddrKey(netip.MustParseAddr("192.0.2.7")); k.Clone() != k {
		t.Error("the clone of an address is another one")
	}
}
