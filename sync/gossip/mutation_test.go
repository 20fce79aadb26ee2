package gossip

import (
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/hashicorp/memberlist"
)

// mutations is the number of packets and streams of TestMutated, half of each
// kind with the secret. 1000000 take about a minute.
var mutations = flag.Int("mutations", 20_000, "packets and streams that TestMutated changes and sends")

// captured is what three nodes have said to one of them, which somebody between
// them has recorded.
type captured struct{ packets, streams [][]byte }

// capture has nodes find each other, exchange counts, miss one and see one
// leave.
func capture(t *testing.T) captured {
	t.Helper()
	fast := func(mc *memberlist.Config) {
		mc.ProbeInterval, mc.ProbeTimeout, mc.PushPullInterval = 50*time.Millisecond, 25*time.Millisecond, 300*time.Millisecond
	}
	r := newRelay(t)
	a := node(t, func(c *Config) { c.Node, c.Advertise, c.tune = "a", r.tcp.Addr().String(), fast })
	at := a.Addr()
	r.target.Store(&at)
	join := func(c *Config) { c.Join, c.tune = []string{r.tcp.Addr().String()}, fast }
	b, c, d := node(t, join), node(t, join), node(t, join)
	together(t, a, b, c, d)
	b.flood("192.0.2.7", 30)
	eventually(t, "enough of all", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.packets) >= 300 && len(r.streams) >= 10
	})
	c.kill()
	r.onlyTCP.Store(true) // now and then a probe goes by TCP
	time.Sleep(200 * time.Millisecond)
	r.onlyTCP.Store(false)
	eventually(t, "c to be missed", func() bool { return len(b.Peers()) == 2 })
	d.Close()
	eventually(t, "d to be gone", func() bool { return len(b.Peers()) == 1 })
	b.Close() // nobody is to answer for the names in what was captured
	a.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all captured
	all.packets = slices.Clone(r.packets)
	for _, s := range r.streams {
		all.streams = append(all.streams, slices.Clone(*s))
	}
	return all
}

// opened are the messages in what was captured: what somebody has who knows the
// secret.
func (c captured) opened(t *testing.T) captured {
	t.Helper()
	g := testGate()
	var all captured
	for _, p := range c.packets {
		plain, ok := g.open(p[len(g.header):], nil, g.name)
		if !ok {
			t.Fatalf("a captured packet does not open: %x", p)
		}
		all.packets = append(all.packets, plain)
	}
	for _, s := range c.streams {
		if _, plain, reason := g.readOpening(&sliceReader{s}); reason == accepted {
			all.streams = append(all.streams, plain)
		}
	}
	return all
}

type sliceReader struct{ b []byte }

func (r *sliceReader) Read(b []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, net.ErrClosed
	}
	n := copy(b, r.b)
	r.b = r.b[n:]
	return n, nil
}

// Packets and streams that nodes have sent, changed anywhere, with and without
// the secret, neither stop a node nor keep it from its peers. What was changed
// without the secret does not reach memberlist at all.
func TestMutated(t *testing.T) {
	all := capture(t)
	plain := all.opened(t)
	t.Logf("captured %d packets and %d streams", len(all.packets), len(all.streams))
	if len(plain.packets) < 100 || len(plain.streams) < 5 {
		t.Fatal("too few to change")
	}
	fast := func(mc *memberlist.Config) {
		mc.ProbeInterval, mc.ProbeTimeout, mc.PushPullInterval = 50*time.Millisecond, 25*time.Millisecond, 300*time.Millisecond
		mc.GossipToTheDeadTime = 2 * time.Second // else ghosts take the names of max_nodes for half a minute
	}
	a := node(t, func(c *Config) { c.Node, c.MaxNodes, c.tune = "victim", 4, fast })
	key, g := gossipKey("test", testSecret), testGate()
	const workers = 4
	var sending sync.WaitGroup
	var mu sync.Mutex
	passed := 0 // of those without the secret
	for w := range workers {
		sending.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w))) // the same each time
			buf := make([]byte, maxPacket)
			for i := range *mutations / workers {
				switch i % 20 { // streams are slow
				case 0:
					original := all.streams[r.IntN(len(all.streams))]
					b := testkit.Mutate(r, original)
					if _, _, reason := g.readOpening(&sliceReader{b}); reason == accepted && !slices.Equal(b[:min(len(b), len(original))], original) {
						mu.Lock()
						passed++
						mu.Unlock()
					}
					a.offer(b, true)
				case 1:
					a.offer(listStream(t, key, testkit.Mutate(r, plain.streams[r.IntN(len(plain.streams))])), false)
				default:
					if i%2 == 0 {
						original := all.packets[r.IntN(len(all.packets))]
						b := testkit.Mutate(r, original)
						if len(b) <= maxPacket && g.passes(b, buf) && !slices.Equal(b, original) {
							mu.Lock()
							passed++
							mu.Unlock()
						}
						a.receives(b)
						continue
					}
					a.receives(packet(t, testkit.Mutate(r, plain.packets[r.IntN(len(plain.packets))])))
				}
			}
		})
	}
	sending.Wait()
	if passed > 0 {
		t.Errorf("%d that nobody with the secret has sent pass the gate", passed)
	}
	s := a.Stats()
	t.Logf("rejected %v; %d peers", s.Rejected, s.Peers)
	if s.Peers > 3 || s.Rejected[reasonKey] == 0 || s.Rejected[reasonMalformed] == 0 {
		t.Errorf("%d peers", s.Peers)
	}
	// It still works: ghosts are missed in time, and make room for a peer.
	b := node(t, func(c *Config) { c.Node, c.Join, c.tune = "honest", []string{a.Addr().String()}, fast })
	eventually(t, "an honest peer", func() bool { return slices.Contains(a.Peers(), "honest") && slices.Contains(b.Peers(), "victim") })
	before := a.Stats().Delta.ChargedUnits
	b.flood("192.0.2.77", 30)
	eventually(t, "its counts", func() bool { return a.Stats().Delta.ChargedUnits >= before+29 })
}

// receives has a node receive a packet, past the socket, which would drop some.
func (n *testNode) receives(b []byte) {
	n.transport.dispatch(b, make([]byte, maxPacket), n.transport.addr(), time.Now())
}

// offer opens a stream to a node, without a socket, and reads what comes back
// to the end, unless it hangs up first.
func (n *testNode) offer(b []byte, hangUp bool) {
	here, there := net.Pipe()
	ended := make(chan struct{})
	s := n.transport.stream(n.transport.done, there, func() { close(ended) })
	go n.transport.serve(s)
	_ = here.SetDeadline(time.Now().Add(patience))
	go func() {
		_, _ = here.Write(b) // the node hangs up when it has seen enough
		if hangUp {
			here.Close()
		}
	}()
	go func() { _, _ = io.Copy(io.Discard, here) }()
	<-ended
	here.Close()
}
