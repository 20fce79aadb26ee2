package planetest

import (
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// TestPlaneRestarts: while there is no control plane the limits stay. One that was started
// again counts its versions from 1, and its first world is taken all the same.
func TestPlaneRestarts(t *testing.T) {
	t.Parallel()
	addr := testkit.FreeAddr(t)
	old := newPlane(t, addr)
	r := startUp(t, addr)
	c := r.dial()
	old.put(world("shop", yearly("user", 1000)))
	const calls = 100
	for i := range calls {
		if got, want := c.left("user", "a"), 1000-1-i; got != want {
			t.Fatalf("%d left, want %d", got, want)
		}
	}
	old.server.Stop()
	r.waitLog("no stream of limits: those in force stay")
	for i := range calls {
		if got, want := c.left("user", "a"), 1000-calls-1-i; got != want {
			t.Fatalf("%d left without a control plane, want %d", got, want)
		}
	}
	again := newPlane(t, addr)
	again.set(world("shop", yearly("user", 2000)))
	first := again.next()
	if first.GetVersionInfo() != "" || first.GetResponseNonce() != "" || first.GetNode().GetId() != node {
		t.Errorf("the new stream begins with %v", first)
	}
	if got := again.next(); got.GetVersionInfo() != "1" || got.GetErrorDetail() != nil {
		t.Errorf("the new plane's first world is answered with %v", got)
	}
	if got, want := c.left("user", "a"), 2000-2*calls-1; got != want {
		t.Errorf("%d left of the new plane's limit, want %d", got, want)
	}
}
