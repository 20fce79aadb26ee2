package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
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

func socket(addr string) *quiet {
	return &quiet{addr: &net.TCPAddr{IP: net.ParseIP(addr), Port: 1}}
}

func newConns(highest, perClient int) *conns {
	c := new(conns)
	c.init(limits{head: time.Hour, write: time.Hour, idle: time.Hour, max: highest, perClient: perClient, large: 4})
	return c
}

// A model that looks at every connection each time agrees on who goes first,
// whatever phases they go through in between.
func TestVictimIsTheOneThatAModelFinds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		highest := 1 + rnd.IntN(15) // of more, some go late
		c := newConns(highest, 1<<20)
		var open []*conn
		for range 400 {
			if rnd.IntN(8) == 0 {
				c.turn.Add(uint32(rnd.IntN(4)))
			}
			for range rnd.IntN(4) {
				if len(open) > 0 {
					open[rnd.IntN(len(open))].enter(phase(rnd.IntN(int(phases))))
				}
			}
			turn := c.turn.Load()
			rank := func(cn *conn) (class, uint32) {
				since := cn.since.Load()
				age := turn - uint32(since)
				return classify(phase(since>>32), age), age
			}
			full := len(open) == highest
			best, bestAge := classNone, uint32(0)
			for _, cn := range open {
				if k, age := rank(cn); k < best || k == best && age > bestAge {
					best, bestAge = k, age
				}
			}
			before := make([]class, len(open))
			ages := make([]uint32, len(open))
			for i, cn := range open {
				before[i], ages[i] = rank(cn)
			}
			cn := c.wrap(socket("192.0.2.1"))
			ok := c.admit(cn)
			if want := !full || best != classNone; ok != want {
				t.Fatalf("seed %d: admitted %v, want %v", seed, ok, want)
			}
			kept := open[:0]
			for i, old := range open {
				if old.places[groupAll] >= 0 {
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

// However many come, the members are looked at once for an eighth of as many
// evictions.
func TestEvictionsAreCheap(t *testing.T) {
	t.Parallel()
	const highest, rounds = 1000, 20
	c := newConns(highest, 1<<20)
	for range highest * rounds {
		cn := c.wrap(socket("192.0.2.1"))
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
		if c.admit(c.wrap(socket("192.0.2.1"))) {
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
	c.exempt = func(a netip.Addr) bool { return a == netip.MustParseAddr("192.0.2.3") }
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []*conn
	for i := range 5000 {
		cn := c.wrap(socket([]string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8::2:1", fmt.Sprintf("10.0.%d.%d", i/250%250, i%250)}[rnd.IntN(6)]))
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
		if len(c.large.members) > 4 {
			t.Fatalf("%d long heads", len(c.large.members))
		}
	}
	for _, cn := range all {
		c.remove(cn)
	}
	if n := len(c.all.members) + len(c.large.members) + len(c.gone.members) + len(c.peers); n != 0 {
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
	c.exempt = func(a netip.Addr) bool { return a.IsLoopback() }
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

func dialFrom(t testing.TB, source, addr string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// ask sends a request on an open connection and returns the status, 0 if there
// is no answer.
func ask(c net.Conn) int {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode
}

// hasEnded reports whether the server has closed a connection, waiting for it.
func hasEnded(c net.Conn) bool {
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// allWait reports whether all connections wait for a request.
func (c *conns) allWait() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(c.all.members, func(cn *conn) bool { return !cn.phase().waiting() })
}

// At the cap the denied go first, then the longest idle; newcomers get in.
func TestNewcomersGetIn(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) {
		c.Connections.Max, c.Connections.HeaderTimeout, c.Connections.IdleTimeout = 6, time.Hour, time.Hour
	})
	first := dialFrom(t, "127.0.0.1", s.addr)
	if ask(first) != 200 {
		t.Fatal("the first")
	}
	// Who has its answer may not have been noted as idle yet.
	eventually(t, func() bool { return s.conns.allWait() })
	s.conns.round() // it is idle longer than those to come
	s.conns.round()
	var denied net.Conn
	for i := range 4 { // the fourth is over its limit
		denied = dialFrom(t, "127.0.0.2", s.addr)
		if got := ask(denied); got != []int{200, 200, 200, 429}[i] {
			t.Fatalf("%d: %d", i, got)
		}
	}
	last := dialFrom(t, "127.0.0.3", s.addr)
	if ask(last) != 200 {
		t.Fatal("the last")
	}
	eventually(t, func() bool { return s.conns.count() == 6 })
	for i, goes := range []net.Conn{denied, first} {
		eventually(t, func() bool { return s.conns.allWait() })
		if got := ask(dialFrom(t, fmt.Sprintf("127.0.1.%d", i+1), s.addr)); got != 200 {
			t.Errorf("newcomer %d got %d", i, got)
		}
		if !hasEnded(goes) {
			t.Errorf("%d: another went", i)
		}
	}
	if ask(last) != 200 {
		t.Error("the youngest was ended too")
	}
	if n := s.conns.dismissed[reasonFull].Load(); n != 2 {
		t.Errorf("%d dismissed", n)
	}
}

// A client above its bound loses its own; one behind a trusted proxy does not.
func TestOneClientHasABound(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{false, true} {
		set := perIP()
		if trusted {
			set.TrustedProxies = loopback()
		}
		set.Rules[0].Limit.Burst = 1000
		s := start(t, set, func(c *Config) { c.Connections.MaxPerClient = 3 })
		neighbour := dialFrom(t, "127.0.0.9", s.addr)
		if ask(neighbour) != 200 {
			t.Fatal("the neighbour")
		}
		var own []net.Conn
		for range 20 {
			c := dialFrom(t, "127.0.0.1", s.addr)
			if ask(c) != 200 {
				t.Fatal("a newcomer is refused")
			}
			own = append(own, c)
			s.conns.round()
		}
		want := 4
		if trusted {
			want = 21
		}
		eventually(t, func() bool { return s.conns.count() == want })
		if ask(neighbour) != 200 {
			t.Error("the neighbour has lost its connection")
		}
		if !trusted && (ask(own[19]) != 200 || !hasEnded(own[0])) {
			t.Error("not the longest idle one was ended")
		}
		if got, want := s.conns.dismissed[reasonClient].Load(), uint64(21-want); got != want {
			t.Errorf("trusted %v: counted %d, want %d", trusted, got, want)
		}
	}
}

// Nearly full, a denial is the last answer on its connection; before, not.
func TestDeniedAreSentAwayWhenCrowded(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) { c.Connections.Max = 10 })
	flood := dialFrom(t, "127.0.0.1", s.addr)
	for range 3 {
		ask(flood)
	}
	if ask(flood) != 429 || ask(flood) != 429 {
		t.Fatal("with room left")
	}
	for i := range 8 {
		if ask(dialFrom(t, fmt.Sprintf("127.0.0.%d", 2+i), s.addr)) != 200 {
			t.Fatal("another")
		}
	}
	if ask(flood) != 429 || !hasEnded(flood) {
		t.Error("nine of ten: the denied connection stays")
	}
	if n := s.conns.dismissed[reasonDenied].Load(); n != 1 {
		t.Errorf("counted %d", n)
	}
}

// Where nobody can go the newcomer is told so.
func TestRefusedWhereAllAreBusy(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) { c.Connections.Max, c.Connections.WriteTimeout = 1, time.Hour })
	c := dialFrom(t, "127.0.0.1", s.addr)
	if ask(c) != 200 {
		t.Fatal("the first")
	}
	s.conns.mu.Lock()
	s.conns.all.members[0].enter(writing)
	s.conns.mu.Unlock()
	all := raw(t, s.addr, "")
	if len(all) != 1 || all[0].StatusCode != 503 || all[0].Header.Get("Retry-After") != "1" || s.conns.rejected[reasonFull].Load() != 1 {
		t.Errorf("%v", all)
	}
}

// Slow heads of many clients go, the oldest first, once nobody is idle.
func TestSlowHeadsMakeRoom(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) { c.Connections.Max, c.Connections.HeaderTimeout = 3, time.Hour })
	var slow []net.Conn
	for i := range 3 {
		c := dialFrom(t, fmt.Sprintf("127.0.0.%d", i+1), s.addr)
		io.WriteString(c, "GET / HT")
		slow = append(slow, c)
		eventually(t, func() bool {
			s.conns.mu.Lock()
			defer s.conns.mu.Unlock()
			n := 0
			for _, m := range s.conns.all.members {
				if m.phase() == reading {
					n++
				}
			}
			return n == i+1
		})
		s.conns.round()
	}
	if got := ask(dialFrom(t, "127.0.1.1", s.addr)); got != 200 {
		t.Errorf("the newcomer got %d", got)
	}
	resp, err := http.ReadResponse(bufio.NewReader(slow[0]), nil)
	if err != nil || resp.StatusCode != 408 {
		t.Errorf("the oldest: %v %v", resp, err)
	}
}
