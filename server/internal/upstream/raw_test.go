//go:build linux && (amd64 || arm64)

package upstream

import "testing"

// A wake-up before anything has come is no answer and no error: the poller is asked again.
func TestWokenInVain(t *testing.T) {
	p := newPool(t, Config{Servers: []Server{newOrigin(t, "tcp", echo).server()}})
	c := mustGet(t, p)
	a := &c.asking
	a.into, a.phase = make([]byte, 10), askSent
	if err := c.raw.Control(func(fd uintptr) {
		if c.askStep(fd) {
			t.Errorf("done with %d bytes, %v", a.n, a.err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	mustAsk(t, c, "x")
	p.Put(c)
}
