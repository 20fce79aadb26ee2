package upstream

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// A turn that comes in the very moment in which somebody leaves is not lost: it is used, or
// goes to the next.
func TestTurnInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		p := newPool(t, Config{Servers: servers(1), MaxConnections: 1, QueueTimeout: time.Second, KeepAlive: time.Hour, dial: w.dial})
		left := 0
		for i := range 400 {
			c, cancel, done := mustGet(t, p), make(chan struct{}), make(chan error)
			go func() {
				c, err := p.Get(netip.Addr{}, waits(cancel), false)
				if err == nil {
					p.Put(c)
				}
				done <- err
			}()
			synctest.Wait()
			if i%2 == 0 {
				close(cancel)
			} else {
				time.Sleep(time.Second)
			}
			if i%4 < 2 { // who was woken has hardly run yet
				p.Put(c)
			} else {
				p.Discard(c, Fine)
			}
			switch err := <-done; {
			case errors.Is(err, ErrCanceled), errors.Is(err, ErrQueueTimeout):
				left++
			case err != nil:
				t.Fatal(err)
			}
			synctest.Wait()
			check(t, p, w)
			if s := p.Stats(); s.Servers[0].InUse != 0 || s.Queue != 0 {
				t.Fatalf("round %d: %+v", i, s)
			}
		}
		if left == 0 {
			t.Error("nobody has left")
		}
		p.Close()
	})
}
