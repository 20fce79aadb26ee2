package gossip

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/sync/delta"
	"github.com/hashicorp/memberlist"
)

// peerOf is a member that a test speaks for.
type peerOf struct {
	*sender
	list *memberlist.Memberlist
	to   *memberlist.Node
}

// newPeer joins a node with what is in meta, and is believed for what it says.
func newPeer(t *testing.T, a *testNode, name string, meta []byte, incarnation uint64) *peerOf {
	t.Helper()
	c, err := Config{Name: "test", Secret: testSecret, Node: name, Bind: "127.0.0.1:0", MaxNodes: 3, Logger: slog.New(slog.DiscardHandler)}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	j := newJournal(c.Logger, time.Now)
	tr, err := newTransport(&c, j.refuse)
	if err != nil {
		t.Fatal(err)
	}
	tr.run()
	m := newMembers(&c, incarnation, j, idle{})
	mc := c.memberlistConfig(tr, m, j, tr.addr())
	mc.Delegate, mc.Alive = metaOnly{m, meta}, nil
	l, err := memberlist.Create(mc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Shutdown() })
	if _, err := l.Join([]string{a.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	p := &peerOf{sender: newSender(t, "test", name, incarnation), list: l}
	for _, n := range l.Members() {
		if n.Name == a.Node() {
			p.to = n
		}
	}
	return p
}

// metaOnly has other metadata than the members it wraps.
type metaOnly struct {
	*members
	meta []byte
}

func (m metaOnly) NodeMeta(int) []byte { return m.meta }

// idle exchanges nothing.
type idle struct{}

func (idle) Tick() (_, _ [][]byte)          { return nil, nil }
func (idle) Receive([]byte) *delta.Rejected { return nil }
func (idle) Join(string, uint64)            {}
func (idle) Leave(string)                   {}

func (p *peerOf) send(t testing.TB, b []byte) {
	t.Helper()
	if err := p.list.SendBestEffort(p.to, b); err != nil {
		t.Fatal(err)
	}
}

// A node that speaks otherwise is not let in, however it says so.
func TestOtherVersionsStayOut(t *testing.T) {
	t.Parallel()
	a := node(t, func(c *Config) { c.Node = "victim" })
	for i, meta := range [][]byte{nil, {protocolVersion}, append(appendMeta(nil, 7), 0), append([]byte{protocolVersion + 1}, make([]byte, 8)...)} {
		before := a.Stats().Rejected[reasonVersion]
		p := newPeer(t, a, fmt.Sprintf("other-%d", i), meta, 7)
		eventually(t, "a rejection", func() bool { return a.Stats().Rejected[reasonVersion] > before })
		p.send(t, p.says("192.0.2.66", 99))
		eventually(t, "its counts to be dropped", func() bool { return a.Stats().Rejected[delta.UnknownNode.String()] > uint64(i) })
	}
	if s := a.Stats(); s.Peers > 0 || s.Delta.ChargedUnits > 0 {
		t.Errorf("%+v", s)
	}
	if lines := a.logs.lines("reason=version"); len(lines) != 1 {
		t.Errorf("%q", lines)
	}
}

// A member is believed about itself, within a cap, and once.
func TestHostileMember(t *testing.T) {
	t.Parallel()
	a := node(t, func(c *Config) { c.Node = "victim" })
	p := newPeer(t, a, "evil", appendMeta(nil, 7), 7)
	eventually(t, "a peer", func() bool { return len(a.Peers()) == 1 })
	charged := func() uint64 { return a.Stats().Delta.ChargedUnits }

	first := p.says("192.0.2.7", 30)
	for range 5 {
		p.send(t, first) // replayed
	}
	eventually(t, "five packets", func() bool { return a.Stats().Delta.ReceivedPackets == 5 })
	if charged() != 29 { // the filter forgives one
		t.Errorf("%d units charged, want 29", charged())
	}
	// Of another life, and of somebody else.
	p.send(t, newSender(t, "test", "evil", 8).says("192.0.2.7", 30))
	p.send(t, newSender(t, "test", "good", 7).says("192.0.2.7", 30))
	// Counts beyond what a node can have seen.
	p.send(t, p.says("192.0.2.66", 2))
	eventually(t, "eight packets", func() bool { return a.Stats().Delta.ReceivedPackets == 8 })
	h, err := sketch.NewHasher(LimiterSecret("test", testSecret), "r")
	if err != nil {
		t.Fatal(err)
	}
	id := h.Word4(192<<24 | 2<<8 | 66).ID
	if !p.rule.TopTalkers().Table.Add(sketch.Digest{Pos: id, ID: id}, 1<<40) {
		t.Fatal("the forged client has no slot")
	}
	p.send(t, slices.Clone(p.Tick(2 * time.Second)[0]))
	eventually(t, "one more", func() bool { return a.Stats().Delta.ReceivedPackets == 9 })
	s := a.Stats()
	for reason, want := range map[delta.Reason]uint64{delta.StaleIncarnation: 1, delta.UnknownNode: 1} {
		if got := s.Rejected[reason.String()]; got != want {
			t.Errorf("%d dropped as %v, want %d", got, reason, want)
		}
	}
	if s.Rejected[delta.Cap.String()] == 0 {
		t.Error("growth beyond the cap is not counted")
	}
	// A suspect is checked exactly, and not denied what it may have.
	if got := a.flood("192.0.2.66", 100); got != 100 {
		t.Errorf("%d of 100 admitted to a client that was slandered", got)
	}
	if got := a.flood("192.0.2.9", 100); got != 100 {
		t.Errorf("%d of 100 admitted to another client", got)
	}
	if lines := a.logs.lines("WARN"); len(lines) != 0 && !strings.Contains(lines[0], "cap") {
		t.Errorf("%q", lines)
	}
}
