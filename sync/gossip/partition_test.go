package gossip

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
	"github.com/hashicorp/memberlist"
)

// relay stands in front of a node, for UDP and TCP, and can be cut.
type relay struct {
	*transport // for its sockets
	target     atomic.Pointer[netip.AddrPort]
	down       atomic.Bool
	onlyTCP    atomic.Bool
	wg         sync.WaitGroup

	mu      sync.Mutex // guards all below
	conns   map[net.Conn]bool
	packets [][]byte // what passed
	streams []*[]byte
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	r := &relay{transport: &transport{}, conns: map[net.Conn]bool{}}
	if err := r.listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	r.wg.Go(r.packetLoop)
	r.wg.Go(r.streamLoop)
	t.Cleanup(func() {
		r.tcp.Close()
		r.udp.Close()
		r.cut()
		r.wg.Wait()
	})
	return r
}

// packetLoop forwards one way: replies go to where their receiver advertises.
func (r *relay) packetLoop() {
	for buf := make([]byte, 2048); ; {
		n, _, err := r.udp.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.packets = append(r.packets, slices.Clone(buf[:n]))
		r.mu.Unlock()
		if to := r.target.Load(); to != nil && !r.down.Load() && !r.onlyTCP.Load() {
			_, _ = r.udp.WriteToUDPAddrPort(buf[:n], *to)
		}
	}
}

func (r *relay) streamLoop() {
	for {
		in, err := r.tcp.Accept()
		if err != nil {
			return
		}
		to := r.target.Load()
		if to == nil || r.down.Load() {
			in.Close()
			continue
		}
		out, err := net.Dial("tcp", to.String())
		if err != nil {
			in.Close()
			continue
		}
		r.mu.Lock()
		r.conns[in], r.conns[out] = true, true
		said := &[]byte{} // by who has dialed
		r.streams = append(r.streams, said)
		r.mu.Unlock()
		for _, c := range [][2]net.Conn{{in, out}, {out, in}} {
			r.wg.Go(func() {
				var from io.Reader = c[1]
				if c[1] == in {
					from = io.TeeReader(in, &recorder{r, said})
				}
				_, _ = io.Copy(c[0], from)
				_ = c[0].(*net.TCPConn).CloseWrite()
			})
		}
	}
}

// recorder keeps what passes.
type recorder struct {
	of   *relay
	said *[]byte
}

func (r *recorder) Write(b []byte) (int, error) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	*r.said = append(*r.said, b...)
	return len(b), nil
}

// cut drops everything from now on.
func (r *relay) cut() {
	r.down.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
	clear(r.conns)
}

// counted is what a node has counted of all clients together.
func (n *testNode) counted() (units uint64) {
	var s sketch.Slot
	h := n.rule.TopTalkers().Table
	for i := range h.Slots() {
		if h.Read(i, &s); s.Live {
			units += s.Count
		}
	}
	return units
}

// Two nodes are cut from each other under load and find each other again. Each
// keeps its promises by itself meanwhile, and what it counted is charged to the
// other once.
func TestPartition(t *testing.T) {
	t.Parallel()
	relays := []*relay{newRelay(t), newRelay(t)}
	nodes := make([]*testNode, 2)
	for i, r := range relays {
		nodes[i] = nodeAt(t, 100, func(c *Config) {
			c.Advertise = r.tcp.Addr().String()
			c.Join = []string{relays[1-i].tcp.Addr().String()}
			c.tune = func(mc *memberlist.Config) {
				mc.ProbeInterval, mc.ProbeTimeout, mc.GossipToTheDeadTime = 100*time.Millisecond, 50*time.Millisecond, 0
			}
		})
		at := nodes[i].Addr()
		r.target.Store(&at)
	}
	together(t, nodes...)

	load, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i, n := range nodes {
		start := n.lim.Now()
		all.Go(func() { // one that floods both: each side keeps the bound of one node
			admitted := 0
			for load.Err() == nil {
				admitted += n.flood("192.0.2.66", 10)
				time.Sleep(5 * time.Millisecond)
			}
			elapsed := (n.lim.Now() - start).Seconds()
			if most := 100*elapsed + 1.5*100 + 1; float64(admitted) > most+1 {
				t.Errorf("node %d admitted %d in %.2f s, want at most %.0f", i, admitted, elapsed, most)
			}
		})
		all.Go(func() { // one that asks both, and each for less than its share
			for load.Err() == nil {
				if n.flood("192.0.2.7", 1) != 1 {
					t.Errorf("node %d denied a client within its limit", i)
				}
				time.Sleep(25 * time.Millisecond)
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	for _, r := range relays {
		r.cut()
	}
	for _, n := range nodes {
		eventually(t, "the peer to be missed", func() bool { return len(n.Peers()) == 0 })
	}
	apart := nodes[0].Stats().Delta.ChargedUnits
	time.Sleep(300 * time.Millisecond)
	if now := nodes[0].Stats().Delta.ChargedUnits; now != apart {
		t.Errorf("%d units charged across the cut", now-apart)
	}
	for _, r := range relays {
		r.down.Store(false)
	}
	together(t, nodes...)
	time.Sleep(300 * time.Millisecond)
	stop()
	all.Wait()
	for i, n := range nodes {
		want := nodes[1-i].counted()
		eventually(t, "every count once", func() bool { return n.Stats().Delta.ChargedUnits >= want })
		time.Sleep(100 * time.Millisecond) // and no more of them
		if got := n.Stats().Delta.ChargedUnits; got != want {
			t.Errorf("node %d: %d units charged, the other counted %d", i, got, want)
		}
	}
}

// Where TCP passes and UDP does not, nodes are members and hear no counts: that is
// noticed, and logged if it goes on (TestJournalGrace).
func TestUDPBlocked(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	r.onlyTCP.Store(true)
	b := node(t, func(c *Config) { c.Advertise = r.tcp.Addr().String() })
	at := b.Addr()
	r.target.Store(&at)
	a := node(t, func(c *Config) {
		c.Join = []string{r.tcp.Addr().String()}
		c.tune = func(mc *memberlist.Config) {
			mc.ProbeInterval, mc.ProbeTimeout = 200*time.Millisecond, 100*time.Millisecond
		}
	})
	together(t, a, b)
	eventually(t, "the fault", func() bool { return a.journal.totals()[reasonUDP] > 0 })
	a.flood("192.0.2.7", 30)
	time.Sleep(100 * time.Millisecond)
	if got := b.Stats().Delta.ChargedUnits; got > 0 {
		t.Errorf("%d units charged", got)
	}
}
