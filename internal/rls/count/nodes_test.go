package count

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/sync/delta"
)

// cluster is some nodes on one clock, with a network that a test carries packets over.
type cluster struct {
	nodes []*Nodes
	now   time.Duration
}

const day = 24 * time.Hour

func newCluster(t testing.TB, n int, change ...func(*NodesConfig)) *cluster {
	t.Helper()
	c := &cluster{now: day}
	for i := range n {
		c.nodes = append(c.nodes, c.node(t, i, 1, change...))
	}
	for i := range c.nodes {
		c.join(i, 1)
	}
	return c
}

func (c *cluster) node(t testing.TB, i int, incarnation uint64, change ...func(*NodesConfig)) *Nodes {
	t.Helper()
	config := NodesConfig{
		Clients: 1 << 12, MaxNodes: 8, MaxBytes: 64 << 10, PacketSize: 1300,
		Node: fmt.Sprint(i), Incarnation: incarnation, Now: func() time.Duration { return c.now },
	}
	for _, f := range change {
		f(&config)
	}
	n, err := NewNodes(config)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// join has all others know node i.
func (c *cluster) join(i int, incarnation uint64) {
	for j, n := range c.nodes {
		if j != i {
			n.Join(fmt.Sprint(i), incarnation)
		}
	}
}

// tick has every node tell every other one what is new.
func (c *cluster) tick(t testing.TB) {
	t.Helper()
	for i, n := range c.nodes {
		packets, _ := n.Tick()
		for _, p := range packets {
			for j, to := range c.nodes {
				if j == i {
					continue
				}
				if r := to.Receive(p); r != nil {
					t.Fatalf("from %d to %d: %v", i, j, r.Reason)
				}
			}
		}
	}
}

// hit counts at node i, and returns the count.
func (c *cluster) hit(t testing.TB, i int, u descriptor.Unit, key string, hits uint64) uint64 {
	t.Helper()
	h := []Hit{{Key: []byte(key), Unit: u, Hits: hits}}
	if err := c.nodes[i].Add(c.now, h); err != nil {
		t.Fatal(err)
	}
	return h[0].Count
}

func TestNodesAddUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.hit(t, 0, descriptor.Minute, "a", 5)
	if got := c.hit(t, 1, descriptor.Minute, "a", 1); got != 1 {
		t.Errorf("before the others are told: %d", got)
	}
	c.tick(t)
	for i, want := range []uint64{7, 7, 7} { // each counts one more of its own
		if got := c.hit(t, i, descriptor.Minute, "a", 1); got != want {
			t.Errorf("node %d: %d, want %d", i, got, want)
		}
	}
	h := []Hit{{Key: []byte("a"), Unit: descriptor.Minute, Hits: 3}, {Key: []byte("a"), Unit: descriptor.Hour, Hits: 1 << 63}}
	if err := c.nodes[2].Ask(c.now, h); err != nil || h[0].Count != 10 || h[1].Count != 1<<63 {
		t.Errorf("asked: %d, %d, %v", h[0].Count, h[1].Count, err)
	}
	c.hit(t, 0, descriptor.Hour, "full", 1<<40)
	c.tick(t)
	if got := c.hit(t, 1, descriptor.Hour, "full", 1); got != 1<<32 {
		t.Errorf("of a full window: %d", got)
	}
	c.now += time.Minute
	if got := c.hit(t, 1, descriptor.Minute, "a", 1); got != 1 {
		t.Errorf("in the next window: %d", got)
	}
	c.hit(t, 0, descriptor.Second, "late", 1)
	c.now += time.Second
	c.tick(t)
	if got := c.hit(t, 1, descriptor.Second, "late", 1); got != 1 {
		t.Errorf("a count of the window before: %d", got)
	}
}

// TestNodesRepeat once what may have been lost, while its window runs.
func TestNodesRepeat(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	c.hit(t, 0, descriptor.Day, "a", 5)
	c.hit(t, 0, descriptor.Second, "b", 5)
	if lost, _ := c.nodes[0].Tick(); len(lost) != 1 {
		t.Fatalf("%d packets", len(lost))
	}
	c.now += time.Second
	for range repeatAfter - 1 {
		if p, _ := c.nodes[0].Tick(); len(p) > 0 {
			t.Fatal("sent again too early")
		}
	}
	packets, _ := c.nodes[0].Tick()
	if len(packets) != 1 || c.nodes[1].Receive(packets[0]) != nil || c.hit(t, 1, descriptor.Day, "a", 0) != 5 {
		t.Errorf("%d packets, and %d counted", len(packets), c.hit(t, 1, descriptor.Day, "a", 0))
	}
	if _, entries, _ := read(packets[0], nil); len(entries) != 1 {
		t.Errorf("%d counters are sent again", len(entries))
	}
	for range 2 * repeatAfter {
		if p, _ := c.nodes[0].Tick(); len(p) > 0 {
			t.Fatal("sent a third time")
		}
	}
}

// TestNodesExcess: a client that spreads its hits gets its limit, and what the others have not
// heard of yet.
func TestNodesExcess(t *testing.T) {
	t.Parallel()
	const nodes, limit, perTick = 5, 1000, 7
	c := newCluster(t, nodes)
	admitted := 0
	for range 100 {
		for range perTick {
			for i := range nodes {
				if c.hit(t, i, descriptor.Day, "a", 1) <= limit {
					admitted++
				}
			}
		}
		c.tick(t)
	}
	if most := limit + (nodes-1)*perTick; admitted < limit || admitted > most {
		t.Errorf("%d admitted, want %d to %d", admitted, limit, most)
	}
}

// TestNodesRemember what a node sent before it left or was started anew.
func TestNodesRemember(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.hit(t, 0, descriptor.Day, "a", 5)
	c.hit(t, 1, descriptor.Day, "a", 2)
	c.tick(t)
	c.nodes[1].Leave("0")
	c.nodes[2].Leave("0")
	if got := c.hit(t, 1, descriptor.Day, "a", 0); got != 7 {
		t.Errorf("without it: %d", got)
	}
	c.nodes[0] = c.node(t, 0, 2)
	for i, incarnation := range []uint64{2, 1, 1} {
		c.join(i, incarnation)
	}
	c.hit(t, 0, descriptor.Day, "a", 4)
	c.tick(t)
	for i := range 2 {
		if got := c.hit(t, 1+i, descriptor.Day, "a", 0); got != 11 {
			t.Errorf("node %d, after its second start: %d, want 11", 1+i, got)
		}
	}
	if got := c.hit(t, 0, descriptor.Day, "a", 0); got != 6 { // its own have begun at 0
		t.Errorf("the new one: %d, want 6", got)
	}
}

// TestNodesAreHeard: nobody hides the many hits of a counter behind hits of others.
func TestNodesAreHeard(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(n *NodesConfig) { n.MaxBytes = n.PacketSize })
	for i := range 5000 {
		c.hit(t, 0, descriptor.Day, fmt.Sprint("crowd", i), 1)
	}
	c.hit(t, 0, descriptor.Day, "heavy", 100)
	c.tick(t)
	if got := c.hit(t, 1, descriptor.Day, "heavy", 0); got != 100 {
		t.Errorf("%d, want 100", got)
	}
	if n := c.nodes[0].Unsent(); n < 4900 || n > 5000 {
		t.Errorf("%d wait", n)
	}
	for range 200 {
		c.tick(t)
	}
	if n := c.nodes[0].Unsent(); n > 0 {
		t.Errorf("%d wait in the end", n)
	}
}

// TestNodesNews has bounds.
func TestNodesNews(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(n *NodesConfig) { n.MaxBytes = n.PacketSize })
	q := &c.nodes[0].outbox
	heavy := counter{sketch.Digest{Pos: 7}, descriptor.Day}
	for round := range uint64(3) {
		q.note(heavy, window(c.now, descriptor.Day)<<32|9, 8)
		for i := range uint64(maxPending + 100) {
			k := counter{sketch.Digest{Pos: i, ID: round + 1}, descriptor.Day}
			q.note(k, window(c.now, descriptor.Day)<<32|1, 1)
		}
		if len(q.fresh) != maxPending {
			t.Errorf("%d are new", len(q.fresh))
		}
		c.nodes[0].Tick()
		if _, waits := q.waiting[heavy]; waits || len(q.waiting) > maxPending || len(q.sent) > maxPending {
			t.Errorf("%d wait, %d were sent; the heavy one waits: %v", len(q.waiting), len(q.sent), waits)
		}
	}
	for i := uint64(0); len(q.known) <= maxPending; i++ { // as after many ticks
		q.known[counter{sketch.Digest{Pos: i, ID: 9}, descriptor.Hour}] = pending{window(c.now, descriptor.Hour)<<32 | 1, 1}
	}
	c.nodes[0].Tick()
	if _, known := q.known[heavy]; !known || len(q.known) > maxPending/2 {
		t.Errorf("%d are kept for nodes that join; the heavy one is: %v", len(q.known), known)
	}
	c.now += day
	c.nodes[0].Tick()
	if len(q.waiting) > 0 {
		t.Errorf("%d of yesterday wait", len(q.waiting))
	}
}

// TestNodesBelieve members alone, about themselves, and no clock that is far ahead.
func TestNodesBelieve(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(n *NodesConfig) { n.Ignore = []string{"ignored"} })
	say := func(node string, incarnation uint64, ahead time.Duration) []byte {
		now := c.now
		from := c.node(t, 0, incarnation, func(n *NodesConfig) { n.Node, n.Now = node, func() time.Duration { return now + ahead } })
		if err := from.Add(now+ahead, []Hit{{Key: []byte("a"), Unit: descriptor.Minute, Hits: 1}}); err != nil {
			t.Fatal(err)
		}
		packets, _ := from.Tick()
		return packets[0]
	}
	to := c.nodes[1]
	to.Join("ignored", 1)
	good := say("0", 1, 0)
	for name, b := range map[string]struct {
		packet []byte
		want   delta.Reason
	}{
		"nothing": {nil, delta.Malformed}, "cut": {good[:len(good)-1], delta.Malformed}, "head": {good[:12], delta.Malformed},
		"more": {append(slices.Clone(good), 1), delta.Malformed}, "version": {[]byte(strings.Replace(string(good), "fln\x01", "fln\x02", 1)), delta.Version},
		"other": {append([]byte("fld\x02"), good[4:]...), delta.Malformed}, "stranger": {say("5", 1, 0), delta.UnknownNode},
		"itself": {say("1", 1, 0), delta.Self}, "ignored": {say("ignored", 1, 0), delta.Ignored}, "old": {say("0", 7, 0), delta.StaleIncarnation},
		"ahead": {say("0", 1, 2*time.Minute), delta.Clock},
	} {
		if r := to.Receive(b.packet); r == nil || r.Reason != b.want {
			t.Errorf("%s: %v, want %v", name, r, b.want)
		}
	}
	if got := c.hit(t, 1, descriptor.Minute, "a", 0); got != 0 || to.Rejected() != 11 {
		t.Errorf("%d counted, %d rejected", got, to.Rejected())
	}
	if r := to.Receive(good); r != nil || c.hit(t, 1, descriptor.Minute, "a", 0) != 1 {
		t.Errorf("a good one: %v", r)
	}
	for i := range 20 { // nodes that come and go
		name := fmt.Sprint("n", i)
		to.Join(name, 1)
		if r := to.Receive(say(name, 1, 0)); r != nil {
			t.Errorf("%s: %v", name, r.Reason)
		}
		to.Leave(name)
	}
	if n := len(*to.peers.Load()); n != 8 {
		t.Errorf("%d nodes are kept", n)
	}
}

func FuzzReceive(f *testing.F) {
	c := newCluster(f, 2)
	c.hit(f, 0, descriptor.Minute, "a", 3)
	c.hit(f, 0, descriptor.Second, "b", 300)
	packets, _ := c.nodes[0].Tick()
	f.Add(packets[0])
	f.Fuzz(func(t *testing.T, b []byte) {
		if c.nodes[1].Receive(b) == nil && len(b) > 1<<16 {
			t.Error("accepted")
		}
		h, entries, reason := read(b, nil)
		if reason != accepted {
			return
		}
		for _, e := range entries { // what was read can be written
			var w writer
			w.begin(&NodesConfig{Node: h.node, Incarnation: h.incarnation, PacketSize: 1300}, h.time)
			if !w.write(1300, e.counter, e.state) {
				t.Fatalf("no room for %+v", e)
			}
			_, again, reason := read(w.end()[0], nil)
			if reason != accepted || again[0] != e {
				t.Fatalf("%+v, %v; want %+v", again, reason, e)
			}
		}
	})
}

// BenchmarkNodesAdd beside [BenchmarkAdd].
func BenchmarkNodesAdd(b *testing.B) {
	c := newCluster(b, 4)
	for i := range c.nodes {
		c.hit(b, i, descriptor.Minute, "domain, key and value", 1)
	}
	c.tick(b)
	hits := []Hit{{Key: []byte("domain, key and value"), Unit: descriptor.Minute, Hits: 1}}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.nodes[0].Add(c.now, hits); err != nil {
			b.Fatal(err)
		}
	}
}
