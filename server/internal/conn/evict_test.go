package conn

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"
)

// quiet is a socket on which nothing happens.
type quiet struct {
	net.Conn
	addr net.Addr
}

func (q *quiet) RemoteAddr() net.Addr            { return q.addr }
func (q *quiet) SetReadDeadline(time.Time) error { return nil }
func (q *quiet) SetDeadline(time.Time) error     { return nil }
func (q *quiet) Close() error                    { return nil }

func quietFrom(addr string) *quiet {
	return &quiet{addr: &net.TCPAddr{IP: net.ParseIP(addr), Port: 1}}
}

func newConns(highest, perClient int) *Conns {
	return New(Limits{Head: time.Hour, Write: time.Hour, Idle: time.Hour, Max: highest, PerClient: perClient, HeadBytes: LargeHeadBytes / 4}, discard)
}

// A model that looks at every connection each time agrees on who goes first,
// whatever phases they go through in between.
func TestVictimIsTheOneThatAModelFinds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		highest := 1 + rnd.IntN(15) // of more, some go late
		c := newConns(highest, 1<<20)
		var open []*Conn
		for range 400 {
			if rnd.IntN(8) == 0 {
				c.tick.Add(uint32(rnd.IntN(4)))
			}
			for range rnd.IntN(4) {
				if len(open) > 0 {
					open[rnd.IntN(len(open))].enter(phase(rnd.IntN(int(phases))))
				}
			}
			tick := c.tick.Load()
			rank := func(cn *Conn) (class, uint32) {
				since := cn.since()
				age := tick - since.tick()
				return classify(since.phase(), age), age
			}
			full := len(open) == highest
			best, bestAge := classNone, uint32(0)
			for _, cn := range open {
				k, age := rank(cn)
				older := age > bestAge
				if k == classQueued { // who came last goes
					older = age < bestAge
				}
				if k < best || k == best && older {
					best, bestAge = k, age
				}
			}
			before := make([]class, len(open))
			ages := make([]uint32, len(open))
			for i, cn := range open {
				before[i], ages[i] = rank(cn)
			}
			cn := c.wrap(quietFrom("192.0.2.1"))
			ok := c.admit(cn)
			if want := !full || best != classNone; ok != want {
				t.Fatalf("seed %d: admitted %v, want %v", seed, ok, want)
			}
			kept := open[:0]
			for i, old := range open {
				if old.entry.in(groupAll) {
					kept = append(kept, old)
				} else if before[i] != best || ages[i] != bestAge {
					t.Fatalf("seed %d: class %d age %d went, want class %d age %d", seed, before[i], ages[i], best, bestAge)
				}
			}
			open = kept
			if ok {
				open = append(open, cn)
			}
			if len(open) != len(c.all.members) || len(open) > highest {
				t.Fatalf("seed %d: %d open, %d of the model, at most %d", seed, len(c.all.members), len(open), highest)
			}
		}
	}
}

// TestUploadsAndTunnelsStay: a client that fills the connections with endless heads evicts none whose request
// was admitted, as long as there are others, and then the silent ones go.
func TestUploadsAndTunnelsStay(t *testing.T) {
	t.Parallel()
	c := newConns(5, 1<<20)
	var all []*Conn
	for _, p := range []phase{tunneling, sending, tunneling, reading, body} {
		cn := c.wrap(quietFrom("192.0.2.1"))
		if !c.admit(cn) {
			t.Fatal("refused")
		}
		cn.enter(p)
		all = append(all, cn)
		c.tick.Add(1)
	}
	all[0].enter(tunneling) // bytes have come
	for i, want := range []*Conn{all[3], all[4], all[1], all[2], all[0]} {
		cn := c.wrap(quietFrom("192.0.2.1"))
		if !c.admit(cn) {
			t.Fatalf("connection %d was refused", i)
		}
		cn.enter(writing)
		if want.entry.in(groupAll) {
			t.Errorf("for connection %d another one went", i)
		}
	}
}

// However many come, the members are looked at once for an eighth of as many
// evictions.
func TestEvictionsAreCheap(t *testing.T) {
	t.Parallel()
	const highest, rounds = 1000, 20
	c := newConns(highest, 1<<20)
	for range highest * rounds {
		cn := c.wrap(quietFrom("192.0.2.1"))
		if !c.admit(cn) {
			t.Fatal("refused")
		}
		cn.enter(idle)
	}
	if n := c.all.rankings; n > 8*rounds {
		t.Errorf("%d rankings for %d evictions", n, highest*(rounds-1))
	}
	// Nor is every attempt a look at all where nobody can go.
	for _, cn := range c.all.members {
		cn.enter(writing)
	}
	before := c.all.rankings
	for range highest {
		if c.admit(c.wrap(quietFrom("192.0.2.1"))) {
			t.Fatal("admitted, though all are in the middle of an answer")
		}
	}
	if n := c.all.rankings - before; n > 100 {
		t.Errorf("%d rankings for %d attempts", n, highest)
	}
}

// Groups and counts agree after any history, and nothing of it is kept.
func TestConnsForgets(t *testing.T) {
	t.Parallel()
	c := newConns(50, 5)
	c.limits.Exempt = func(a netip.Addr) bool { return a == netip.MustParseAddr("192.0.2.3") }
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []*Conn
	for i := range 5000 {
		cn := c.wrap(quietFrom([]string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8::2:1", fmt.Sprintf("10.0.%d.%d", i/250%250, i%250)}[rnd.IntN(6)]))
		if c.admit(cn) {
			all = append(all, cn)
			cn.enter([]phase{idle, idleDenied, reading, fresh}[rnd.IntN(4)])
			if rnd.IntN(10) == 0 {
				c.admitLarge(cn)
			}
		}
		if rnd.IntN(3) == 0 && len(all) > 0 {
			c.remove(all[rnd.IntN(len(all))]) // some have ended already
		}
		for client, peer := range c.peers {
			if len(peer.members) > 5 || len(peer.members) == 0 {
				t.Fatalf("%v has %d", client, len(peer.members))
			}
		}
		if len(c.longs.members) > 4 {
			t.Fatalf("%d long heads", len(c.longs.members))
		}
	}
	for _, cn := range all {
		c.remove(cn)
	}
	if n := len(c.all.members) + len(c.longs.members) + len(c.gone.members) + len(c.peers); n != 0 {
		t.Errorf("%d left", n)
	}
	if c.dismissed[reasonClient].Load() == 0 || c.dismissed[reasonFull].Load() == 0 || c.dismissed[reasonLarge].Load() == 0 {
		t.Error("a bound was never reached")
	}
}

// What counts as one client.
func TestClientOfASocket(t *testing.T) {
	t.Parallel()
	c := newConns(1, 1)
	c.limits.Exempt = func(a netip.Addr) bool { return a.IsLoopback() }
	for in, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "127.0.0.1": "invalid IP", "::1": "invalid IP",
	} {
		if got := c.client(netip.MustParseAddr(in)).String(); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if c.client(netip.Addr{}).IsValid() {
		t.Error("a peer without an address shares a bound")
	}
}
