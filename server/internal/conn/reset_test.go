package conn

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
	"github.com/valyala/fasthttp"
)

const (
	banned, neighbour = "127.0.0.5", "127.0.0.6"
	getRoot           = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
)

var (
	bannedOnly             = netip.MustParsePrefix(banned + "/32")
	wasReset, noSocketSoon = rawhttp.WasReset, rawhttp.NoSocketSoon
)

// busyServer is a listener on which requests for /wait wait in a queue, /stuck blocks until freed, /long gets
// more than a socket takes, and /last ends the connection.
type busyServer struct {
	*echo
	free    chan struct{}
	waiting atomic.Int64
	ended   atomic.Int64 // waits
}

func startBusy(t *testing.T, o Options) *busyServer {
	t.Helper()
	b := &busyServer{free: make(chan struct{})}
	decide := func(c *Conn, target string) (answer string, last bool) {
		c.BeginRequest()
		length := 0
		switch target {
		case "/wait":
			ctx := c.BeginWait()
			b.waiting.Add(1)
			<-ctx.Done()
			c.EndWait()
			b.ended.Add(1)
		case "/stuck":
			b.waiting.Add(1)
			<-b.free
		case "/long":
			length = 64 << 20
		case "/last":
			c.LeaveUnread()
			last = true
		}
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length, strings.Repeat("a", length)), last || c.LastRequest()
	}
	b.echo = newEcho(Limits{}, o, Handlers{
		Answer: func(dst []byte, c *Conn, h *Head) ([]byte, bool, bool) {
			text, last := decide(c, string(h.Target))
			return append(dst, text...), last, true
		},
		Request: func(ctx *fasthttp.RequestCtx) {
			c := Of(ctx)
			c.BeginRequest()
			if ctx.Request.IsBodyStream() {
				c.BeginBody()
				_, _ = io.Copy(io.Discard, ctx.RequestBodyStream())
				c.EndBody()
			}
		},
		ParseError: func(ctx *fasthttp.RequestCtx, err error) { LeaveUnread(ctx) },
		Refuse:     func(dst []byte, c *Conn, err error) []byte { return dst },
		Log:        nopLogger{},
	}).start(t)
	t.Cleanup(func() { close(b.free) })
	return b
}

// phasesNow are the phases of the connections of a client.
func (b *busyServer) phasesNow(client string) (all []phase) {
	b.conns.mu.Lock()
	defer b.conns.mu.Unlock()
	for _, cn := range b.conns.all.members {
		if cn.addr.String() == client {
			all = append(all, cn.phase())
		}
	}
	return all
}

// A connection of a banned peer is reset whatever it is doing, its socket is gone at once, and
// nobody else's is touched.
func TestResetInEveryPhase(t *testing.T) {
	t.Parallel()
	server, client := tlsPair(t)
	served := func(s *Session) { // nobody reads frames here
		defer s.Close()
		s.c.enter(streaming)
		_, _ = io.Copy(io.Discard, s)
	}
	server2 := server.Clone()
	server2.NextProtos = []string{"h2"}
	client2 := client.Clone()
	client2.NextProtos = []string{"h2"}
	for _, tc := range []struct {
		name    string
		in      phase
		options Options
		tls     *tls.Config
		send    string
	}{
		{name: "accepted", in: fresh},
		{name: "head", in: reading, send: "POST / HTTP/1.1\r\nHost: a\r\nContent-"}, // fasthttp waits for the rest
		{name: "body", in: body, send: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc"},
		{name: "idle", in: idle, send: getRoot},
		{name: "in line", in: queued, send: "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"},
		{name: "decision", in: writing, send: "GET /stuck HTTP/1.1\r\nHost: a\r\n\r\n"},
		{name: "answer that nobody reads", in: writing, send: "GET /long HTTP/1.1\r\nHost: a\r\n\r\n"},
		{name: "after the last answer", in: lingering, send: "GET /last HTTP/1.1\r\nHost: a\r\n\r\n"},
		{name: "handshake", in: opens, options: Options{TLS: server}, send: "\x16\x03\x01"},
		{name: "TLS", in: idle, options: Options{TLS: server}, tls: client, send: getRoot},
		{name: "HTTP/2", in: streaming, options: Options{TLS: server2, HTTP2: served}, tls: client2, send: "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := startBusy(t, tc.options)
			dial := func(from string) net.Conn {
				c := dialFrom(t, from, s.addr)
				if tc.tls != nil {
					c = tls.Client(c, tc.tls)
				}
				if _, err := io.WriteString(c, tc.send); err != nil {
					t.Fatal(err)
				}
				return c
			}
			b, n := dial(banned), dial(neighbour)
			for _, who := range []string{banned, neighbour} {
				eventually(t, func() bool { return slices.Equal(s.phasesNow(who), []phase{tc.in}) })
			}
			eventually(t, func() bool { return len(rawhttp.Sockets(t, s.addr, banned)) == 1 })
			if got := s.conns.Reset(bannedOnly); got != 1 {
				t.Fatalf("%d connections were reset", got)
			}
			noSocketSoon(t, s.addr, banned)
			if tc.in != lingering && !wasReset(b) { // which has got the server's FIN
				t.Error("the client was not told by a reset")
			}
			if got := s.phasesNow(neighbour); len(got) != 1 {
				t.Errorf("the neighbour's connection: %v", got)
			}
			switch tc.name {
			case "in line":
				eventually(t, func() bool { return s.ended.Load() == 1 })
			case "decision": // it is the goroutine's that the store keeps waiting
				s.free <- struct{}{}
				s.free <- struct{}{}
			}
			if tc.in == idle && tc.tls == nil && ask(n) != 200 {
				t.Error("the neighbour is not served")
			}
			eventually(t, func() bool { return len(s.phasesNow(banned)) == 0 })
			if got := s.conns.Resets(); got != 1 {
				t.Errorf("%d resets counted", got)
			}
			n.Close()
		})
	}
}

// A connection whose goroutine ends it because its upstream was cut off, before Reset has got to
// the socket, is reset as well.
func TestResetOvertaken(t *testing.T) {
	t.Parallel()
	asked, cut := make(chan struct{}), make(chan struct{})
	var l *echo
	h := echoHandlers()
	h.Answer = func(dst []byte, c *Conn, _ *Head) ([]byte, bool, bool) {
		c.BeginRequest()
		Relay{c}.Ask(interrupter(func() {
			close(cut)
			eventually(t, func() bool { return l.conns.Open() == 0 })
		}))
		close(asked)
		<-cut
		return dst, true, true
	}
	l = newEcho(Limits{}, Options{}, h).start(t)
	c := dialFrom(t, banned, l.addr)
	if _, err := io.WriteString(c, getRoot); err != nil {
		t.Fatal(err)
	}
	<-asked
	if got := l.conns.Reset(bannedOnly); got != 1 {
		t.Fatalf("%d connections were reset", got)
	}
	noSocketSoon(t, l.addr, banned)
	if !wasReset(c) {
		t.Error("the client was not told by a reset")
	}
}

type interrupter func()

func (f interrupter) Interrupt() { f() }

// A connection in a listener's queue when its peer was banned is reset as soon as it is accepted. A
// balancer's is not, whoever is behind it.
func TestQueuedConnectionsOfBannedPeersAreReset(t *testing.T) {
	t.Parallel()
	o := proxied("127.0.0.7")
	var held sync.Map
	limits := Limits{Held: func(a netip.Addr) bool { _, is := held.Load(a.String()); return is }}
	l := newEcho(limits, o, echoHandlers())
	l.bind(t)
	b, n, p := dialFrom(t, banned, l.addr), dialFrom(t, neighbour, l.addr), dialFrom(t, "127.0.0.7", l.addr)
	for _, c := range []net.Conn{b, n} {
		if _, err := io.WriteString(c, getRoot); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool {
		return slices.Equal(rawhttp.Sockets(t, l.addr, banned), []string{rawhttp.StateEstablished})
	})
	held.Store(banned, true)
	held.Store("127.0.0.7", true) // nobody would say so of a balancer
	held.Store("192.0.2.1", true)
	if got := l.conns.Reset(bannedOnly); got != 0 {
		t.Fatalf("%d reset that nobody has accepted", got)
	}
	l.serve(t)
	noSocketSoon(t, l.addr, banned)
	if !wasReset(b) {
		t.Error("the client was not told by a reset")
	}
	if got := ask(n); got != 200 {
		t.Errorf("the neighbour got %d", got)
	}
	if _, err := io.WriteString(p, header1); err != nil {
		t.Fatal(err)
	}
	if got := ask(p); got != 200 {
		t.Errorf("the client of a balancer got %d", got)
	}
	for _, stays := range []string{"192.0.2.1", "127.0.0.7"} {
		if got := l.conns.Reset(netip.MustParsePrefix(stays + "/32")); got != 0 {
			t.Errorf("%d connections of a balancer were reset for %s", got, stays)
		}
	}
}

// A peer that is banned between the first look at its new connection and the moment when that
// is among the others does not keep it: Reset has not seen it.
func TestBannedWhileAccepted(t *testing.T) {
	t.Parallel()
	var s *echo
	var looks atomic.Int64
	s = newEcho(Limits{Held: func(a netip.Addr) bool {
		if a.String() != banned {
			return false
		}
		if looks.Add(1) == 1 { // the ban begins right after this look
			if got := s.conns.Reset(bannedOnly); got != 0 {
				t.Errorf("%d reset before they were admitted", got)
			}
			return false
		}
		return true
	}}, Options{}, echoHandlers())
	s.start(t)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(banned)}}
	c, err := dialer.DialContext(t.Context(), "tcp", s.addr)
	if err == nil { // else the reset has come as soon as the connection was there
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
		if !wasReset(c) {
			t.Error("the connection has survived")
		}
	}
	eventually(t, func() bool { return s.conns.Resets() == 1 && s.conns.Open() == 0 })
	noSocketSoon(t, s.addr, banned)
}

// Under -race: while a client connects and asks as fast as it can it is banned. Nothing of it is left, and
// clients that are not banned keep all connections.
func TestNoneSurvivesABanOfAFlood(t *testing.T) {
	t.Parallel()
	var ban atomic.Bool
	s := startEcho(t, Limits{Held: func(a netip.Addr) bool { return ban.Load() && a.String() == banned }}, Options{})
	n := dialFrom(t, neighbour, s.addr)
	var flood sync.WaitGroup
	var resets atomic.Int64
	for range 8 {
		flood.Go(func() {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(banned)}}
			for resets.Load() < 200 {
				c, err := dialer.Dial("tcp", s.addr)
				if err != nil {
					resets.Add(1) // while it was in the queue
					continue
				}
				_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
				if ask(c) == 0 {
					resets.Add(1)
				}
				_ = c.(*net.TCPConn).SetLinger(0) // leaves no port behind
				c.Close()
			}
		})
	}
	eventually(t, func() bool { return s.conns.Open() > 2 })
	open := make([]net.Conn, 10)
	for i := range open {
		open[i] = dialFrom(t, banned, s.addr)
	}
	ban.Store(true)
	s.conns.Reset(bannedOnly)
	for _, c := range open {
		if !wasReset(c) {
			t.Error("a connection has survived")
		}
	}
	flood.Wait()
	noSocketSoon(t, s.addr, banned)
	if got := ask(n); got != 200 {
		t.Errorf("the neighbour got %d", got)
	}
}
