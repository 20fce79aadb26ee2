package gossip

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
)

// testMembers is a node's view of the others, without a network.
func testMembers(maxNodes int) (*members, *logs) {
	l := &logs{}
	c := Config{Name: "test", Node: "self", MaxNodes: maxNodes, Logger: slog.New(slog.NewTextHandler(l, nil))}
	return newMembers(&c, 1<<30, newJournal(c.Logger, time.Now), idle{}), l
}

// announced is a node as memberlist asks about it.
func announced(name, at string) *memberlist.Node {
	a := netip.MustParseAddrPort(at)
	return &memberlist.Node{
		Name: name, Addr: a.Addr().AsSlice(), Port: a.Port(), Meta: appendMeta(nil, 7),
		PMin: memberlist.ProtocolVersionMin, PMax: memberlist.ProtocolVersionMax, PCur: memberlist.ProtocolVersion2Compatible,
	}
}

// alive is what memberlist does with news of a node: it asks, then tells.
func (m *members) alive(n *memberlist.Node) error {
	err := m.NotifyAlive(n)
	if err == nil {
		m.NotifyJoin(n)
	}
	return err
}

// Names beyond max_nodes are not let in, whatever their number; those that are
// in may say so again; when one goes, another comes; and seeds are always let
// in, one name at each address.
func TestMaxNodes(t *testing.T) {
	t.Parallel()
	m, l := testMembers(4)
	seed := netip.MustParseAddrPort("192.0.2.1:7946")
	m.setSeeds([]netip.AddrPort{seed})
	for i := range 1000 {
		err := m.alive(announced(fmt.Sprintf("ghost-%d", i), fmt.Sprintf("198.51.100.1:%d", 1000+i)))
		if (err == nil) != (i < 3) || err != nil && !errors.Is(err, errNodes) {
			t.Fatalf("ghost %d: %v", i, err)
		}
	}
	if n := len(m.list()); n != 3 {
		t.Errorf("%d peers", n)
	}
	if err := m.alive(announced("ghost-1", "198.51.100.1:1001")); err != nil {
		t.Errorf("one that is in: %v", err)
	}
	if err := m.alive(announced("seed", seed.String())); err != nil {
		t.Errorf("a seed: %v", err)
	}
	if err := m.alive(announced("second", seed.String())); !errors.Is(err, errNodes) {
		t.Errorf("another name at the seed: %v", err)
	}
	m.NotifyLeave(announced("ghost-0", "198.51.100.1:1000"))
	m.NotifyLeave(announced("ghost-1", "198.51.100.1:1001"))
	if err := m.alive(announced("honest", "192.0.2.2:7946")); err != nil {
		t.Errorf("when there is room: %v", err)
	}
	if up := l.lines("peer is up"); len(up) != 5 {
		t.Errorf("%q", up)
	}
}

// An address is that of one node, or of two while one follows the other.
func TestOneAddressForAll(t *testing.T) {
	t.Parallel()
	m, _ := testMembers(32)
	for i := range 10 {
		err := m.alive(announced(fmt.Sprintf("ghost-%d", i), "198.51.100.1:7946"))
		if (err == nil) != (i < sameAddress) || err != nil && !errors.Is(err, errAddress) {
			t.Errorf("ghost %d: %v", i, err)
		}
	}
}

// Each refusal is counted by its reason.
func TestRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	for reason, change := range map[string]func(*memberlist.Node){
		reasonVersion:   func(n *memberlist.Node) { n.Meta[0]++ },
		reasonMalformed: func(n *memberlist.Node) { n.Name = "" },
		reasonAddress:   func(n *memberlist.Node) { n.Port = 0 },
		reasonNodes:     func(n *memberlist.Node) { n.Name = "beyond" },
	} {
		m, l := testMembers(2)
		if err := m.alive(announced("first", "192.0.2.1:7946")); err != nil {
			t.Fatal(err)
		}
		n := announced("other", "192.0.2.2:7946")
		change(n)
		for range 3 {
			if m.alive(n) == nil {
				t.Fatalf("%s is let in", reason)
			}
		}
		if got := m.journal.totals(); got[reason] != 3 || len(got) != 1 || len(l.lines("reason="+reason)) != 1 {
			t.Errorf("%v, want 3 of %s; %q", got, reason, l.lines(""))
		}
	}
	m, l := testMembers(2)
	m.NotifyConflict(announced("twin", "192.0.2.1:7946"), announced("twin", "192.0.2.2:7946"))
	if lines := l.lines("two nodes have one name"); m.journal.totals()[reasonConflict] != 1 || len(lines) != 1 ||
		!strings.Contains(lines[0], "peer=twin address=192.0.2.1:7946 other=192.0.2.2:7946") {
		t.Errorf("%q", lines)
	}
}

// What is no node is not let in: it could never be missed, or would have all
// others refuse each other.
func TestNoNodes(t *testing.T) {
	t.Parallel()
	m, _ := testMembers(32)
	for name, change := range map[string]func(*memberlist.Node){
		"no address":      func(n *memberlist.Node) { n.Addr = nil },
		"half an address": func(n *memberlist.Node) { n.Addr = n.Addr[:3] },
		"every address":   func(n *memberlist.Node) { n.Addr = []byte{0, 0, 0, 0} },
		"multicast":       func(n *memberlist.Node) { n.Addr = []byte{224, 0, 0, 1} },
		"broadcast":       func(n *memberlist.Node) { n.Addr = []byte{255, 255, 255, 255} },
		"no port":         func(n *memberlist.Node) { n.Port = 0 },
		"no name":         func(n *memberlist.Node) { n.Name = "" },
		"a long name":     func(n *memberlist.Node) { n.Name = strings.Repeat("x", 129) },
		"another meta":    func(n *memberlist.Node) { n.Meta = nil },
	} {
		n := announced("ghost", "198.51.100.1:7946")
		change(n)
		if m.alive(n) == nil {
			t.Errorf("%s is let in", name)
		}
	}
	if err := m.alive(announced("honest", "192.0.2.2:7946")); err != nil {
		t.Error(err)
	}
}

// memberlist keeps the names of those that are gone for a while, and tells of
// them: so there is a bound for them as well, and it ends with time.
func TestNamesThatAreGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, _ := testMembers(4)
		in := 0
		for i := range 1000 { // one comes, one goes
			n := announced(fmt.Sprintf("ghost-%d", i), fmt.Sprintf("198.51.100.1:%d", 1000+i))
			if m.alive(n) == nil {
				in++
				m.NotifyLeave(n)
			}
		}
		if in != namesPerNode*4 {
			t.Errorf("%d were let in", in)
		}
		if err := m.alive(announced("ghost-3", "198.51.100.1:1003")); err != nil {
			t.Errorf("one that comes back: %v", err)
		}
		time.Sleep(goneFor + 5*probeEvery)
		if err := m.alive(announced("honest", "192.0.2.2:7946")); err != nil {
			t.Errorf("later: %v", err)
		}
		if n := len(m.lost); n > 4 {
			t.Errorf("%d are looked for", n)
		}
	})
}

// deadMsg is memberlist's news of a node that is gone; of the node itself: it leaves.
type deadMsg struct {
	Incarnation uint32
	Node, From  string
}

// Ghosts that came and went have used up the names that a node keeps. A new node is
// refused, and gets in without anybody's help once memberlist forgets the ghosts.
func TestGhostsMakeRoom(t *testing.T) {
	t.Parallel()
	fast := func(mc *memberlist.Config) {
		mc.ProbeInterval, mc.ProbeTimeout, mc.PushPullInterval = 50*time.Millisecond, 25*time.Millisecond, 300*time.Millisecond
		mc.GossipToTheDeadTime = 2 * time.Second
	}
	a := node(t, func(c *Config) { c.Node, c.MaxNodes, c.tune = "victim", 4, fast })
	newPeer(t, a, "evil", appendMeta(nil, 7), 7)
	names := func() int {
		a.members.mu.Lock()
		defer a.members.mu.Unlock()
		return len(a.members.peers) + a.members.goneLocked()
	}
	for i := 0; names() < namesPerNode*4; i++ {
		if i == 10_000 {
			t.Fatalf("%d names", names())
		}
		name := fmt.Sprintf("ghost-%d", i)
		a.receives(packet(t, encoded(t, aliveType, aliveMsg{
			Incarnation: 1, Node: name, Addr: []byte{127, 0, 0, 9}, Port: uint16(10000 + i),
			Meta: appendMeta(nil, uint64(i)), Vsn: []uint8{1, 5, 2, 0, 0, 0},
		})))
		a.receives(packet(t, encoded(t, deadType, deadMsg{Incarnation: 2, Node: name, From: name})))
		time.Sleep(time.Millisecond)
	}
	refused := a.Stats().Rejected[reasonNodes]
	b := node(t, func(c *Config) { c.Node, c.Join, c.tune = "honest", []string{a.Addr().String()}, fast })
	eventually(t, "the refusal", func() bool { return a.Stats().Rejected[reasonNodes] > refused })
	eventually(t, "an honest peer", func() bool { return slices.Contains(a.Peers(), "honest") && slices.Contains(b.Peers(), "victim") })
}

// A member announces 1000 nodes where somebody else is. This node lets in as
// many as max_nodes allows, two at one address, and sends no more than it would
// send to them.
func TestGhosts(t *testing.T) {
	t.Parallel()
	a := node(t, func(c *Config) {
		c.Node, c.MaxNodes = "victim", 8
		c.tune = func(mc *memberlist.Config) {
			mc.ProbeInterval, mc.ProbeTimeout = 200*time.Millisecond, 100*time.Millisecond
		}
	})
	newPeer(t, a, "evil", appendMeta(nil, 7), 7)
	eventually(t, "a peer", func() bool { return len(a.Peers()) == 1 })
	before := a.Stats().SentBytes
	for i := range 1000 {
		msg := encoded(t, aliveType, aliveMsg{
			Incarnation: 1, Node: fmt.Sprintf("ghost-%d", i), Addr: []byte{127, 0, 0, 9}, Port: uint16(10000 + i%500),
			Meta: appendMeta(nil, uint64(i)), Vsn: []uint8{1, 5, 2, 0, 0, 0},
		})
		a.receives(packet(t, msg))
	}
	eventually(t, "the rest to be refused", func() bool { return a.Stats().Rejected[reasonNodes] >= 900 })
	start := time.Now()
	for time.Since(start) < 500*time.Millisecond {
		if n := len(a.Peers()); n > 7 {
			t.Fatalf("%d peers", n)
		}
		time.Sleep(10 * time.Millisecond)
	}
	// Seven peers, to each of which it sends a packet of 100 bytes in 20 ms, and
	// what memberlist sends.
	seconds := time.Since(start).Seconds() + 1
	if sent := float64(a.Stats().SentBytes - before); sent > 7*200*50*seconds+100e3 {
		t.Errorf("%.0f bytes in %.1f s", sent, seconds)
	}
	if lines := a.logs.lines("WARN"); len(lines) > 5 {
		t.Errorf("%d lines: %q", len(lines), lines[:5])
	}
}

// What is sent in all has a ceiling, whoever asks for it.
func TestSentIsBounded(t *testing.T) {
	t.Parallel()
	a := node(t, func(c *Config) { c.MaxNodes, c.MaxBytes, c.Interval = 3, 3000, time.Hour })
	most := uint64(a.transport.allowed.Burst())
	start := time.Now()
	b := make([]byte, packetBytes)
	for sent := uint64(0); sent < 4*most; sent += packetBytes {
		if _, err := a.transport.WriteTo(b, "127.0.0.9:9"); err != nil {
			break // refused by who is there, which nobody is
		}
	}
	s := a.Stats()
	if allowed := float64(most) * (1 + time.Since(start).Seconds()); float64(s.SentBytes) > allowed+packetBytes {
		t.Errorf("%d bytes sent, %.0f allowed", s.SentBytes, allowed)
	}
	if s.Rejected[reasonBudget] == 0 || len(a.logs.lines("reason=budget")) != 1 {
		t.Errorf("%v, %q", s.Rejected, a.logs.lines("reason=budget"))
	}
}

// The budget is for counts in full to max_nodes nodes, and more.
func TestAllowance(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{
		{Name: "test", Secret: testSecret},
		{Name: "test", Secret: testSecret, MaxNodes: 1000, MaxBytes: 4 << 10, Interval: time.Second},
		{Name: strings.Repeat("n", 64), Secret: testSecret, MaxNodes: 3, MaxBytes: 1 << 20, Interval: 20 * time.Millisecond},
	} {
		c, err := c.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		counts := float64(c.MaxNodes-1) * float64(c.MaxBytes) / c.Interval.Seconds()
		onWire := counts * packetBytes / float64(c.payload())
		if got := float64(c.allowance().Limit()); got < onWire || got > 1.2*onWire+1e6+float64(c.MaxNodes)*(5<<10+float64(c.MaxBytes)/c.Interval.Seconds()) {
			t.Errorf("%d nodes: %.0f bytes/s allowed for %.0f", c.MaxNodes, got, onWire)
		}
	}
}
