package gossip

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/leaks"
	"github.com/hashicorp/memberlist"
)

// TestMain fails if a node leaves a goroutine behind.
func TestMain(m *testing.M) { os.Exit(leaks.ExitCode(m.Run())) }

// What Close waits for is all that is ours.
func TestCloseEndsOurGoroutines(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	a := node(t, func(c *Config) {
		c.Join = []string{silent.Addr().String()}
		c.tune = func(mc *memberlist.Config) { mc.TCPTimeout = time.Hour } // so that nothing else ends the attempt
	})
	conn, err := silent.Accept() // the attempt waits for an answer
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	a.Close()
	if a.transport.udp.SetReadDeadline(time.Time{}) == nil {
		t.Error("the socket is open")
	}
	done := make(chan struct{})
	go func() { a.loops.Wait(); a.transport.goroutines.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Until(testkit.Deadline(t))):
		t.Error("a goroutine is left")
	}
}

// Three nodes find each other through one, and a client that none of them
// suspects by itself is suspected by all.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	a := node(t, nil)
	b, c := joining(t, a), joining(t, a)
	together(t, a, b, c)
	nodes := []*testNode{a, b, c}
	for _, n := range nodes {
		if got := n.flood("192.0.2.7", 40); got != 40 { // 50 make a suspect
			t.Errorf("%d of 40 admitted", got)
		}
	}
	for _, n := range nodes {
		eventually(t, "the client to be a suspect", func() bool { return n.suspects("192.0.2.7") })
		if n.suspects("192.0.2.8") {
			t.Error("a client that never asked is a suspect")
		}
	}
	s := a.Stats()
	if s.Peers != 2 || s.SentBytes == 0 || s.ReceivedBytes == 0 || s.Delta.ChargedUnits == 0 || len(s.Delta.Peers) != 2 {
		t.Errorf("%+v", s)
	}
	if top := b.Top(5); len(top) != 1 || top[0].Key != "192.0.2.7" || top[0].Rule != "r" {
		t.Errorf("%+v", top)
	}
	for _, n := range nodes {
		if lines := n.logs.lines("WARN"); len(lines) > 0 {
			t.Errorf("%q", lines)
		}
	}
}

// A node that leaves says so: here nobody would find out.
func TestLeave(t *testing.T) {
	t.Parallel()
	a := node(t, func(c *Config) { c.tune = func(mc *memberlist.Config) { mc.ProbeInterval = time.Hour } })
	b := joining(t, a)
	together(t, a, b)
	b.Close()
	eventually(t, "b to be gone", func() bool { return len(a.Peers()) == 0 })
	b.Close() // again
	if gone, left := a.logs.lines("peer has left"), b.logs.lines("cluster: left"); len(gone) != 1 || len(left) != 1 {
		t.Errorf("logged: %q, %q", gone, left)
	}
}

// A node that leaves first sends what it has counted since its last tick: what
// dies with it would let clients have another burst.
func TestSendsBeforeItLeaves(t *testing.T) {
	t.Parallel()
	a := node(t, nil)
	b := node(t, func(c *Config) { c.Join, c.Interval = []string{a.Addr().String()}, time.Hour })
	together(t, a, b)
	b.flood("192.0.2.7", 90)
	b.Close()
	eventually(t, "the client to be a suspect", func() bool { return a.suspects("192.0.2.7") || a.Stats().Delta.ChargedUnits > 80 })
}

// A node whose seeds are all down starts alone, says so once with what is
// wrong, keeps trying and says when it is over.
func TestStartsAlone(t *testing.T) {
	t.Parallel()
	seed := testkit.FreeAddr(t)
	a := node(t, func(c *Config) { c.Join = []string{seed} })
	eventually(t, "a word", func() bool { return len(a.logs.lines("goes on alone")) == 1 })
	if line := a.logs.lines("goes on alone")[0]; !strings.Contains(line, seed+": nothing listens there") {
		t.Errorf("%s", line)
	}
	b := node(t, func(c *Config) { c.Bind = seed })
	together(t, a, b)
	eventually(t, "a word", func() bool { return len(a.logs.lines("cluster: joined")) == 1 })
	if alone := a.logs.lines("goes on alone"); len(alone) != 1 {
		t.Errorf("said %d times", len(alone))
	}
}

func TestJoinProblems(t *testing.T) {
	t.Parallel()
	a := node(t, nil)
	for _, tt := range []struct {
		change func(*Config)
		want   string
		reason string
	}{
		{func(c *Config) { c.Secret = "another secret of theirs" }, "it hung up: compare cluster.name and the secret", reasonKey},
		{func(c *Config) { c.Name = "other" }, "it hung up: compare cluster.name and the secret", reasonCluster},
		{func(c *Config) { c.Join = []string{"no-such-host.invalid:7946"} }, "no-such-host.invalid", ""},
	} {
		n := node(t, func(c *Config) {
			c.Join = []string{a.Addr().String()}
			tt.change(c)
		})
		eventually(t, tt.want, func() bool {
			alone := n.logs.lines("goes on alone")
			return len(alone) == 1 && strings.Contains(alone[0], tt.want)
		})
		if tt.reason != "" && a.Stats().Rejected[tt.reason] == 0 {
			t.Errorf("%s: not counted", tt.reason)
		}
		if len(a.Peers())+len(n.Peers()) > 0 {
			t.Errorf("%s: they are peers", tt.want)
		}
	}
}

func TestBindErrors(t *testing.T) {
	t.Parallel()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for bind, want := range map[string]string{
		tcp.Addr().String():      "stop that one, or choose another port",
		udp.LocalAddr().String(): "stop that one, or choose another port",
		"192.0.2.1:7946":         "put the other in advertise",
		"no-such-host.invalid:1": "write the address of this machine",
	} {
		_, err := Start(context.Background(), Config{Name: "test", Secret: testSecret, Bind: bind}, newLimiter(t, "test", testSecret, 1))
		if err == nil || !strings.Contains(err.Error(), "cluster bind "+bind) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", bind, err, want)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	_, err := Config{Secret: "short", Interval: 1, MaxNodes: -1, Advertise: "h:1", Join: []string{"h"}}.withDefaults()
	for _, want := range []string{"Name: has 0", "Secret: 5 characters are too few", "Interval: 1ns", "MaxNodes: -1", `Advertise: "h:1"`, `Join[0]: "h"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in %v", want, err)
		}
	}
	c, err := Config{Name: "test", Secret: testSecret}.withDefaults()
	if err != nil || c.Interval != 100*time.Millisecond || c.MaxNodes != 32 || c.Logger == nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// Two nodes of one name: the second is not admitted, and both log it.
func TestNameConflict(t *testing.T) {
	t.Parallel()
	a := node(t, func(c *Config) { c.Node = "twin" })
	b := node(t, func(c *Config) { c.Node, c.Join = "twin", []string{a.Addr().String()} })
	for _, n := range []*testNode{a, b} {
		eventually(t, "a word", func() bool { return len(n.logs.lines("two nodes have one name")) == 1 })
		if n.Stats().Rejected[reasonConflict] == 0 || len(n.Peers()) > 0 {
			t.Errorf("%+v", n.Stats())
		}
	}
}

// A node that is started again under its name and address, before or after it
// is missed, is believed again, and what it counted before is not charged
// twice.
func TestRestart(t *testing.T) {
	t.Parallel()
	a := node(t, nil)
	b := node(t, func(c *Config) { c.Node, c.Join = "b", []string{a.Addr().String()} })
	together(t, a, b)
	b.flood("192.0.2.7", 30)
	eventually(t, "counts", func() bool { return a.Stats().Delta.ChargedUnits == 29 }) // the filter forgives one
	at := b.Addr().String()
	b.kill()
	again := node(t, func(c *Config) { c.Node, c.Bind, c.Join = "b", at, []string{a.Addr().String()} })
	together(t, a, again)
	again.flood("192.0.2.7", 11)
	eventually(t, "counts of the new life", func() bool { return a.Stats().Delta.ChargedUnits == 29+10 })
}

// A peer that was lost is asked for where it was, also by a node that was given
// nobody to ask.
func TestLostPeerIsAskedFor(t *testing.T) {
	t.Parallel()
	fast := func(mc *memberlist.Config) {
		mc.ProbeInterval, mc.ProbeTimeout, mc.GossipToTheDeadTime = 100*time.Millisecond, 50*time.Millisecond, 0
	}
	a := node(t, func(c *Config) { c.tune = fast })
	b := node(t, func(c *Config) { c.Node, c.Join, c.tune = "b", []string{a.Addr().String()}, fast })
	together(t, a, b)
	at := b.Addr().String()
	b.kill()
	eventually(t, "b to be missed", func() bool { return len(a.Peers()) == 0 })
	again := node(t, func(c *Config) { c.Node, c.Bind, c.tune = "b", at, fast })
	together(t, a, again)
}

// The address that a node advertises is what it is bound to, what it was given, or a
// private address of the machine; and that is its name, unless it has one.
func TestAdvertise(t *testing.T) {
	t.Parallel()
	a := node(t, nil)
	if a.Advertised() != a.Addr() || a.Node() != a.Addr().String() {
		t.Errorf("bound to %v, advertised %v, named %s", a.Addr(), a.Advertised(), a.Node())
	}
	b := node(t, func(c *Config) { c.Bind, c.Advertise, c.Node = "0.0.0.0:0", "127.0.0.5:7946", "b" })
	if b.Advertised().String() != "127.0.0.5:7946" || b.Node() != "b" || b.list.LocalNode().Address() != "127.0.0.5:7946" {
		t.Errorf("advertised %v, named %s", b.Advertised(), b.Node())
	}
	c, err := Config{Name: "test", Secret: testSecret, Bind: "0.0.0.0:0"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTransport(&c, func(string, net.Addr) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tr.Shutdown() }()
	switch at, err := tr.advertise(""); {
	case err != nil: // a machine without a private address
		if !strings.Contains(err.Error(), "set advertise") {
			t.Error(err)
		}
	case !at.Addr().IsPrivate() || at.Port() != tr.addr().Port():
		t.Errorf("advertised %v", at)
	}
}
