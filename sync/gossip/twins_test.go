package gossip

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
)

// Of two incarnations the one that started later is the greater, at whatever node they
// are compared; those of one millisecond differ.
func TestIncarnationsAreOrdered(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 22, 5, 0, 0, 0, time.UTC)
	for i := range 1000 {
		at := start.Add(time.Duration(i) * time.Millisecond)
		if a, b := incarnationOf(at), incarnationOf(at.Add(time.Millisecond)); a >= b {
			t.Fatalf("%d, then %d", a, b)
		}
	}
	if a, b := incarnationOf(start), incarnationOf(start.AddDate(200, 0, 0)); a >= b {
		t.Errorf("%d, 200 years later %d", a, b)
	}
	seen := map[uint64]bool{}
	for range 100 {
		seen[incarnationOf(start)] = true
	}
	if len(seen) < 99 {
		t.Errorf("%d of 100 differ", len(seen))
	}
}

// world of nodes that have one name: who answers at which address.
type namesakes struct {
	mu sync.Mutex
	at map[netip.AddrPort]uint64 // incarnations
}

func (w *namesakes) ask(_ context.Context, at netip.AddrPort) (name string, incarnation uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if incarnation, ok := w.at[at]; ok {
		return "twin", incarnation, nil
	}
	return "", 0, errors.New("nobody is there")
}

func (w *namesakes) set(at netip.AddrPort, incarnation uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if incarnation == 0 {
		delete(w.at, at)
		return
	}
	w.at[at] = incarnation
}

// Exactly one of two nodes yields, whoever of them hears of the other first,
// and until that is gone.
func TestWhoYields(t *testing.T) {
	t.Parallel()
	first, second := netip.MustParseAddrPort("192.0.2.1:7946"), netip.MustParseAddrPort("192.0.2.2:7946")
	for name, tt := range map[string]struct {
		own, other uint64
		yields     bool
	}{
		"the other is older":   {2, 1, true},
		"the other is younger": {1, 2, false},
		"by far":               {1 << 63, 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var l logs
			world := &namesakes{at: map[netip.AddrPort]uint64{first: tt.own, second: tt.other}}
			w := newTwins("twin", tt.own, slog.New(slog.NewTextHandler(&l, nil)))
			var changes []bool
			w.ask, w.changed = world.ask, func(y bool) { changes = append(changes, y) }
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { w.run(ctx) })
			for range 20 { // it is said again and again
				w.claimed(second)
				w.claimed(first) // by who remembers this one's former life
				time.Sleep(askEvery)
			}
			other, yields := w.yieldsTo()
			if yields != tt.yields || yields && other != second {
				t.Errorf("%s: yields %v to %v", name, yields, other)
			}
			world.set(second, 0)
			time.Sleep((maxMisses + 1) * askEvery)
			if _, yields := w.yieldsTo(); yields || len(w.claims) > 0 {
				t.Errorf("%s: yields to nobody; %d are asked", name, len(w.claims))
			}
			stop()
			running.Wait()
			want := []bool{}
			if tt.yields {
				want = []bool{true, false}
			}
			if !slices.Equal(changes, want) || len(l.lines("level=ERROR")) != len(want)/2 {
				t.Errorf("%s: %v, logged %q", name, changes, l.lines(""))
			}
		})
	}
}

// Reports of a node that does not answer, of an earlier incarnation or sent again by a
// stranger, means nothing; and many of them are not asked.
func TestOldNewsIsNoTwin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTwins("twin", 5, slog.New(slog.DiscardHandler))
		questions := 0
		var mu sync.Mutex
		w.ask = func(context.Context, netip.AddrPort) (string, uint64, error) {
			mu.Lock()
			defer mu.Unlock()
			questions++
			return "", 0, errors.New("nobody is there")
		}
		w.changed = func(bool) { t.Error("it yields") }
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.run(ctx) })
		for i := range 1000 {
			w.claimed(netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), uint16(1000+i)))
		}
		time.Sleep(time.Minute)
		stop()
		running.Wait()
		if questions > maxClaims*maxMisses {
			t.Errorf("%d questions", questions)
		}
	})
}

// A node of another name where this one's was said to be is no twin.
func TestAnotherNameIsNoTwin(t *testing.T) {
	t.Parallel()
	w := newTwins("twin", 5, slog.New(slog.DiscardHandler))
	w.ask = func(context.Context, netip.AddrPort) (string, uint64, error) { return "other", 1, nil }
	w.claimed(netip.MustParseAddrPort("192.0.2.1:7946"))
	if w.askAll(t.Context()) {
		t.Error("it is asked again")
	}
	if _, yields := w.yieldsTo(); yields {
		t.Error("it yields")
	}
}

// The question goes over a stream, and what comes back answers this question
// and no other.
func TestAsking(t *testing.T) {
	t.Parallel()
	a := node(t, func(c *Config) { c.Node = "somebody" })
	b := node(t, nil)
	name, incarnation, err := b.members.twins.ask(t.Context(), a.Addr())
	if err != nil || name != "somebody" || incarnation != a.members.incarnation {
		t.Errorf("%s, %d, %v", name, incarnation, err)
	}
	// A stranger sends the answer to another question, and no answer.
	g := testGate()
	old := nodeInfo{nonce: [askNonce]byte{1}, incarnation: 1, name: b.Node()}
	for what, frame := range map[string][]byte{
		"an old answer":             g.seal(old.append([]byte{answerType})),
		"of another kind":           g.seal([]byte{ackType, 0x80}),
		"cut short":                 g.seal([]byte{answerType, 1, 2}),
		"with another key":          newGate("test", "another secret of theirs", 3).seal(old.append([]byte{answerType})),
		"nothing":                   nil,
		"in the version of padding": versionOf(g.seal(old.append([]byte{answerType})), 0),
	} {
		at := answering(t, frame)
		if name, _, err := b.members.twins.ask(t.Context(), at); err == nil {
			t.Errorf("%s: %s is there", what, name)
		}
	}
}

func versionOf(frame []byte, version byte) []byte {
	frame = bytes.Clone(frame)
	frame[frameHead] = version
	return frame
}

// answering listens, and answers each stream with the same.
func answering(t *testing.T, frame []byte) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = conn.Write(frame)
			conn.Close()
		}
	}()
	return netip.MustParseAddrPort(ln.Addr().String())
}

// What answers a node that joins has to pass the gate too: its own list, sent
// back in the version of padding, does not reach memberlist.
func TestAnswersPassTheGate(t *testing.T) {
	t.Parallel()
	g := testGate()
	good := g.seal(encoded(t, pushPullType, listMsg{}))
	other := nodeMsg{Name: "b", Addr: []byte{127, 0, 0, 1}, Port: 1, Meta: appendMeta(nil, 1), Vsn: []uint8{3, 5, 5, 0, 0, 0}}
	for what, tt := range map[string]struct {
		frame  []byte
		want   string
		reason string
	}{
		"a list":                    {good, "", ""},
		"in the version of padding": {versionOf(good, 0), "another secret", reasonKey},
		"with another key":          {newGate("test", "another secret of theirs", 3).seal([]byte{pushPullType}), "another secret", reasonKey},
		"plain text":                {[]byte{pushPullType, 0x80}, "another secret", reasonKey},
		"too long":                  {[]byte{encryptedType, 0xff, 0, 0, 0}, "max_nodes is too low", reasonStreams},
		"empty":                     {[]byte{encryptedType, 0, 0, 0, 29}, "too short", reasonTruncated},
		"of another kind":           {g.seal([]byte{9, 0x80}), "cannot be read", reasonMalformed},
		"of another version":        {g.seal(encoded(t, pushPullType, listMsg{Nodes: 1}, other)), "another version", reasonVersion},
		"nothing":                   {nil, "hung up", ""},
	} {
		a := node(t, nil)
		err := a.joinAt(answering(t, tt.frame))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(explain(err), tt.want) {
			t.Errorf("%s: %v", what, err)
		}
		for reason, n := range a.Stats().Rejected {
			if n > 0 != (reason == tt.reason) {
				t.Errorf("%s: %d dropped: %s", what, n, reason)
			}
		}
	}
}

// Two nodes of one name: the one that started later is not ready, says so once,
// and takes no part, until the other is gone.
func TestTwoNodesOfOneName(t *testing.T) {
	t.Parallel()
	slow := func(mc *memberlist.Config) { mc.ProbeInterval, mc.PushPullInterval = time.Hour, time.Hour } // nothing is found out late
	a := node(t, func(c *Config) { c.Node, c.tune = "twin", slow })
	other := node(t, func(c *Config) { c.Node, c.Join, c.tune = "other", []string{a.Addr().String()}, slow })
	together(t, a, other)
	time.Sleep(2 * time.Millisecond) // incarnations of one millisecond are ordered by chance
	b := node(t, func(c *Config) { c.Node, c.Join, c.tune = "twin", []string{other.Addr().String()}, slow })
	eventually(t, "the later one to yield", func() bool { return b.Ready() != nil })
	if err := b.Ready(); !strings.Contains(err.Error(), a.Addr().String()) || !strings.Contains(err.Error(), "set cluster.node") || !b.Stats().Yields {
		t.Errorf("%v", err)
	}
	sent := b.Stats().Delta.SentPackets
	b.flood("192.0.2.7", 60)
	a.flood("192.0.2.8", 60)
	charged := func(n *testNode) uint64 { return n.Stats().Delta.ChargedUnits }
	eventually(t, "counts of the first", func() bool { return charged(other) == 59 }) // the filter forgives one
	if a.Ready() != nil || a.Stats().Yields {
		t.Errorf("the first: %v", a.Ready())
	}
	time.Sleep(100 * time.Millisecond) // five ticks
	if now := b.Stats().Delta.SentPackets; now != sent || charged(other) != 59 {
		t.Errorf("the later one sent what it counted: %d packets", now-sent)
	}
	if lines := b.logs.lines("level=ERROR"); len(lines) != 1 {
		t.Errorf("%q", lines)
	}
	a.Close()
	eventually(t, "the later one to be ready", func() bool { return b.Ready() == nil })
	together(t, b, other)
	eventually(t, "its counts", func() bool { return charged(other) == 59+59 })
}

// A node that yields hears nothing and says nothing by UDP, opens no streams for
// memberlist and takes none; it still answers who it is.
func TestSilence(t *testing.T) {
	t.Parallel()
	a := node(t, func(c *Config) { c.Node = "silent" })
	listener, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, silent := range []bool{false, true} {
		a.transport.silent.Store(silent)
		received := a.Stats().Delta.ReceivedPackets
		sendTo(t, "udp", a.Addr(), counted(t, []byte("counts")))
		noise := a.Stats().Rejected[reasonCluster]
		sendTo(t, "udp", a.Addr(), []byte("noise")) // behind it
		eventually(t, "noise", func() bool { return a.Stats().Rejected[reasonCluster] > noise })
		if silent {
			time.Sleep(50 * time.Millisecond) // for memberlist, if it had got it
		} else {
			eventually(t, "counts", func() bool { return a.Stats().Delta.ReceivedPackets > received })
		}
		if got := a.Stats().Delta.ReceivedPackets > received; got == silent {
			t.Errorf("silent %v: counts received %v", silent, got)
		}
		sent := a.Stats().SentBytes
		if _, err := a.transport.WriteTo([]byte("hello"), listener.LocalAddr().String()); err != nil {
			t.Error(err)
		}
		if got := a.Stats().SentBytes > sent; got == silent {
			t.Errorf("silent %v: sent %v", silent, got)
		}
		if _, err := a.transport.DialTimeout(answering(t, nil).String(), time.Second); (err != nil) != silent {
			t.Errorf("silent %v: dial %v", silent, err)
		}
		asked := listStream(t, gossipKey("test", testSecret), encoded(t, pushPullType, listMsg{}))
		if n := len(said(t, a, asked)); (n == 0) != silent {
			t.Errorf("silent %v: %d bytes for a list", silent, n)
		}
	}
	b := node(t, nil)
	if name, _, err := b.members.twins.ask(t.Context(), a.Addr()); name != "silent" {
		t.Errorf("%q, %v", name, err)
	}
}

// said is what a node answers on a stream.
func said(t *testing.T, n *testNode, data []byte) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = conn.Write(data)
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	b, _ := io.ReadAll(conn) // a reset is an answer too
	return b
}

// Two halves of a cluster meet, each with a node of the same name. Both decide
// alike who yields, and the others change over to the one that goes on.
func TestOneNameAfterAPartition(t *testing.T) {
	t.Parallel()
	fast := func(mc *memberlist.Config) {
		mc.ProbeInterval, mc.ProbeTimeout, mc.PushPullInterval = 100*time.Millisecond, 50*time.Millisecond, 500*time.Millisecond
		mc.DeadNodeReclaimTime = time.Second
	}
	first := node(t, func(c *Config) { c.Node, c.tune = "twin", fast })
	here := node(t, func(c *Config) { c.Node, c.Join, c.tune = "here", []string{first.Addr().String()}, fast })
	time.Sleep(2 * time.Millisecond)
	second := node(t, func(c *Config) { c.Node, c.tune = "twin", fast })
	there := node(t, func(c *Config) { c.Node, c.Join, c.tune = "there", []string{second.Addr().String()}, fast })
	together(t, first, here)
	together(t, second, there)

	both := node(t, func(c *Config) {
		c.Node, c.Join, c.tune = "both", []string{here.Addr().String(), there.Addr().String()}, fast
	})
	eventually(t, "the later one to yield", func() bool { return second.Ready() != nil })
	eventually(t, "the others to know the first", func() bool {
		for _, n := range []*testNode{here, there, both} {
			i := slices.IndexFunc(n.members.list(), func(p memberlist.Node) bool { return p.Name == "twin" })
			if i < 0 || n.members.list()[i].Address() != first.Addr().String() || len(n.Peers()) != 3 {
				return false
			}
		}
		return true
	})
	if err := first.Ready(); err != nil {
		t.Error(err)
	}
	first.flood("192.0.2.8", 60)
	for _, n := range []*testNode{here, there, both} {
		eventually(t, "its counts everywhere", func() bool { return n.Stats().Delta.ChargedUnits == 59 })
	}
}
