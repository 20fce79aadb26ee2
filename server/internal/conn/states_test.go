package conn

import (
	"log/slog"
	"maps"
	"net"
	"testing"
	"time"
)

// Each phase is a state of its own name, and each connection is in one of them.
func TestStates(t *testing.T) {
	t.Parallel()
	c := New(Limits{Head: time.Minute, Write: time.Minute, Idle: time.Minute, Max: 100, PerClient: 100}, slog.New(slog.DiscardHandler))
	want := map[string]int{dismissedState: 0}
	var all []*Conn
	for p := range phases {
		if stateOf[p] == "" {
			t.Fatalf("phase %d has no state", p)
		}
		client, nc := net.Pipe()
		t.Cleanup(func() { client.Close(); nc.Close() })
		cn := c.wrap(nc)
		if !c.admit(cn) {
			t.Fatal("refused")
		}
		cn.enter(p)
		want[stateOf[p]]++
		all = append(all, cn)
	}
	if got := c.States(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	c.mu.Lock()
	c.evictLocked(&c.all, reasonFull) // who is closing goes first
	c.mu.Unlock()
	want["closing"]--
	want[dismissedState]++
	if got := c.States(); !maps.Equal(got, want) {
		t.Errorf("after a dismissal: got %v, want %v", got, want)
	}
	for _, cn := range all {
		c.remove(cn)
	}
	for state, n := range c.States() {
		if n != 0 {
			t.Errorf("%d %s when all have gone", n, state)
		}
	}
}
