package upstream

import (
	"testing"
)

// A connection that is returned serves the next request, on every way there is.
func TestReuse(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			p := newPool(t, Config{Servers: []Server{newOrigin(t, network, echo).server()}})
			for i := range 3 {
				c := mustGet(t, p)
				if c.Reused() != (i > 0) {
					t.Errorf("request %d: reused is %v", i, c.Reused())
				}
				mustAsk(t, c, "one")
				if _, err := c.Write([]byte("two")); err != nil {
					t.Fatal(err)
				}
				into := make([]byte, 10)
				if n, err := c.AwaitHead(into); err != nil || string(into[:n]) != "two" {
					t.Fatalf("%q, %v", into[:n], err)
				}
				p.Put(c)
			}
			if s := p.Stats().Servers[0]; s.Dials != 1 || s.Requests != 3 || s.Idle != 1 || s.InUse != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}
