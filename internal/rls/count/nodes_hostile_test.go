package count

import (
	"fmt"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/sketch"
)

// TestNodesAreHeardAtLast: also hits that come one at a time add up to many, so no crowd hides
// them, though it takes all places of news that wait.
func TestNodesAreHeardAtLast(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(n *NodesConfig) { n.MaxBytes = n.PacketSize })
	q, next := &c.nodes[0].outbox, uint64(0)
	crowd := func(n int) {
		for range n {
			next++
			q.note(counter{sketch.Digest{Pos: next, ID: 1}, descriptor.Day}, window(c.now, descriptor.Day)<<32|2, 2)
		}
	}
	crowd(maxPending)
	c.tick(t)
	for range 20 {
		c.hit(t, 0, descriptor.Day, "steady", 1)
		crowd(200) // more than a tick has room for
		c.tick(t)
	}
	if got := c.hit(t, 1, descriptor.Day, "steady", 0); got < 4 {
		t.Errorf("%d of 20 are told", got)
	}
}

// TestNodesTellSoon also what is counted by a reading of the clock after that of the tick, when
// a window begins between them.
func TestNodesTellSoon(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	early := c.now + time.Minute - time.Millisecond
	c.now += time.Minute
	c.hit(t, 0, descriptor.Minute, "a", 5)
	c.now = early
	c.tick(t)
	c.now += 2 * time.Millisecond
	c.tick(t)
	if got := c.hit(t, 1, descriptor.Minute, "a", 0); got != 5 {
		t.Errorf("%d, want 5", got)
	}
}

// TestNodesForget those that are gone, once their windows are over: each takes memory.
func TestNodesForget(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(n *NodesConfig) { n.Clients = 4 })
	to := c.nodes[1]
	for i, u := range []descriptor.Unit{descriptor.Hour, descriptor.Minute, descriptor.Hour} {
		run := uint64(i + 1)
		c.nodes[0] = c.node(t, 0, run)
		c.join(0, run)
		for k := range 40 {
			c.hit(t, 0, u, fmt.Sprint("a", k), 1)
		}
		c.tick(t)
	}
	evicted := to.Evictions()
	for _, next := range []struct {
		after time.Duration
		peers int
	}{{0, 3}, {time.Minute, 2}, {time.Hour - 2*time.Minute, 2}, {time.Minute, 1}, {day, 1}} {
		c.now += next.after
		to.Sweep(c.now)
		if got := len(*to.peers.Load()); got != next.peers {
			t.Errorf("%d nodes are kept at %v, want %d", got, c.now-day, next.peers)
		}
	}
	if got := to.Evictions(); got != evicted || evicted == 0 {
		t.Errorf("%d counts were forgotten, before that %d", got, evicted)
	}
}
