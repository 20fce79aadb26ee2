package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// ways are the kinds of connections; plain is one whose socket cannot be used directly.
var ways = []string{"tcp", "unix", "plain", "tls"}

// onEveryWay runs a test against a server that hands each connection to serve.
func onEveryWay(t *testing.T, serve handler, test func(t *testing.T, p *Pool), settings Config) {
	t.Helper()
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			c := settings
			network, handle := way, serve
			var server *tls.Config
			if way == "plain" || way == "tls" {
				network = "tcp"
			}
			var client *tls.Config
			if way == "tls" {
				server, client = redistest.NewCertificate(t, time.Now().Add(time.Hour)).Configs(t)
				handle = func(nc net.Conn, ended <-chan struct{}) {
					through := tls.Server(nc, server)
					defer through.Close()
					if through.Handshake() == nil {
						serve(through, ended)
					}
				}
			}
			s := newOrigin(t, network, handle).server()
			s.TLS = client
			c.Servers = []Server{s}
			if way == "plain" {
				c.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					nc, err := new(net.Dialer).DialContext(ctx, network, address)
					return struct{ net.Conn }{nc}, err
				}
			}
			p := newPool(t, c)
			test(t, p)
		})
	}
}

// wantIO wants an error of a connection with a cause, nil for any.
func wantIO(t *testing.T, err error, want IOError) {
	t.Helper()
	var e *IOError
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if e.Stale != want.Stale || e.Answered != want.Answered || e.Timeout != want.Timeout || want.Err != nil && !errors.Is(e, want.Err) {
		t.Errorf("got %+v, want %+v", e, want)
	}
}

// A connection that the server has closed, or has sent something on that nobody asked for, is
// found out before a byte of the next request is written; nothing unasked is an answer.
func TestStale(t *testing.T) {
	serve := func(nc net.Conn, _ <-chan struct{}) {
		p := make([]byte, 100)
		n, _ := nc.Read(p)
		_, _ = nc.Write(p[:n])
		switch n, _ := nc.Read(p); string(p[:n]) {
		case "more":
			_, _ = nc.Write([]byte("more"))
			_, _ = nc.Write([]byte("unasked"))
			_, _ = nc.Read(p)
		case "last":
			_, _ = nc.Write([]byte("last"))
		}
	}
	onEveryWay(t, serve, func(t *testing.T, p *Pool) {
		for word, cause := range map[string]error{"last": nil, "more": errUnasked} {
			for _, ask := range []func(c *Conn) error{
				func(c *Conn) error { _, err := c.Ask([]byte("never"), make([]byte, 100)); return err },
				func(c *Conn) error { _, err := c.Write([]byte("never")); return err },
			} {
				c := mustGet(t, p)
				mustAsk(t, c, "one")
				p.Put(c)
				c = mustGet(t, p)
				if !c.Reused() || c.Stale() {
					t.Fatal("not reused, or stale without a reason")
				}
				into := make([]byte, 4) // what follows stays where it is
				if n, err := c.Ask([]byte(word), into); err != nil || string(into[:n]) != word {
					t.Fatalf("%q, %v", into[:n], err)
				}
				p.Put(c)
				c = mustGet(t, p)
				eventually(t, "stale", func() bool { c.clean = false; return c.under == nil && c.raw == nil || c.Stale() })
				c.clean = false
				if c.raw == nil && c.under == nil { // one look takes what there is
					eventually(t, "stale", c.Stale)
				} else {
					wantIO(t, ask(c), IOError{Stale: true, Err: cause})
				}
				p.Discard(c, Unknown)
			}
		}
	}, Config{})
}

// A server that accepts and is silent is given up on at ResponseTimeout, and said to have
// answered if a byte has come.
func TestSilent(t *testing.T) {
	serve := func(nc net.Conn, _ <-chan struct{}) {
		p := make([]byte, 100)
		for {
			n, err := nc.Read(p)
			if err != nil {
				return
			}
			if string(p[:n]) == "begin" {
				_, _ = nc.Write([]byte("H"))
			}
		}
	}
	const timeout = 60 * time.Millisecond
	onEveryWay(t, serve, func(t *testing.T, p *Pool) {
		into := make([]byte, 10)
		begun := func() *Conn { // an answer, which may take longer than the timeout here
			for range 100 {
				c := mustGet(t, p)
				if n, err := c.Ask([]byte("begin"), into); n == 1 && err == nil {
					return c
				}
				p.Discard(c, Unknown)
			}
			t.Fatal("no answer has come in time")
			return nil
		}
		p.Put(begun()) // of which the next request knows nothing
		c, start := mustGet(t, p), time.Now()
		_, err := c.Ask([]byte("nothing"), into)
		wantIO(t, err, IOError{Timeout: true})
		if took := time.Since(start); took < timeout {
			t.Errorf("gave up after %v", took)
		}
		p.Discard(c, Failed)
		c = begun()
		_, err = c.AwaitHead(into)
		wantIO(t, err, IOError{Timeout: true, Answered: true})
		p.Discard(c, Failed)
		c = begun()
		_, err = c.Read(into)
		wantIO(t, err, IOError{Timeout: true, Answered: true})
		p.Discard(c, Fine)
	}, Config{ResponseTimeout: timeout, IdleTimeout: timeout})
}

// A server that closes, or resets the connection, before an answer; and the end of an answer.
func TestClosed(t *testing.T) {
	serve := func(nc net.Conn, _ <-chan struct{}) {
		p := make([]byte, 100)
		n, _ := nc.Read(p)
		switch string(p[:n]) {
		case "reset":
			if tc, ok := nc.(*net.TCPConn); ok {
				_ = tc.SetLinger(0)
			}
		case "end":
			_, _ = nc.Write([]byte("end"))
		}
	}
	onEveryWay(t, serve, func(t *testing.T, p *Pool) {
		into := make([]byte, 100)
		for _, word := range []string{"close", "reset"} {
			c := mustGet(t, p)
			_, err := c.Ask([]byte(word), into)
			wantIO(t, err, IOError{})
			p.Discard(c, Failed)
		}
		c := mustGet(t, p)
		if n, err := c.Ask([]byte("end"), into); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := c.Read(into); n != 0 || err != io.EOF { //nolint:errorlint // as it is documented
			t.Error(n, err)
		}
		_, err := c.AwaitHead(into)
		wantIO(t, err, IOError{Answered: true, Err: io.EOF})
		p.Discard(c, Fine)
	}, Config{})
}

// Interrupt ends whatever is going on, and the connection is not used again.
func TestInterrupt(t *testing.T) {
	onEveryWay(t, func(_ net.Conn, ended <-chan struct{}) { <-ended }, func(t *testing.T, p *Pool) {
		for what, do := range map[string]func(c *Conn) error{
			"Ask":   func(c *Conn) error { _, err := c.Ask([]byte("x"), make([]byte, 10)); return err },
			"Read":  func(c *Conn) error { _, err := c.Read(make([]byte, 10)); return err },
			"Head":  func(c *Conn) error { _, err := c.AwaitHead(make([]byte, 10)); return err },
			"Write": func(c *Conn) error { _, err := c.Write(make([]byte, 64<<20)); return err },
		} {
			c := mustGet(t, p)
			done := make(chan error)
			go func() { done <- do(c) }()
			time.Sleep(5 * time.Millisecond) // before or after it has begun: both must end
			c.Interrupt()
			if err := <-done; !errors.Is(err, ErrInterrupted) {
				t.Errorf("%s: %v", what, err)
			}
			c.Interrupt()
			p.Put(c)
			if s := p.Stats().Servers[0]; s.Idle != 0 || s.InUse != 0 {
				t.Errorf("%s: %+v", what, s)
			}
		}
	}, Config{})
}

// A request may be larger than the socket takes at once.
func TestBigRequest(t *testing.T) {
	request := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	serve := func(nc net.Conn, _ <-chan struct{}) {
		for {
			got, p := 0, make([]byte, 64<<10)
			for got < len(request) {
				n, err := nc.Read(p)
				if err != nil {
					return
				}
				for i := range n {
					if p[i] != request[got+i] {
						_, _ = nc.Write([]byte("wrong"))
						return
					}
				}
				got += n
			}
			_, _ = nc.Write([]byte("right"))
		}
	}
	onEveryWay(t, serve, func(t *testing.T, p *Pool) {
		for range 2 {
			c, into := mustGet(t, p), make([]byte, 100)
			if n, err := c.Ask(request, into); err != nil || string(into[:n]) != "right" {
				t.Fatalf("%q, %v", into[:n], err)
			}
			p.Put(c)
			c = mustGet(t, p)
			if n, err := c.Write(request); n != len(request) || err != nil {
				t.Fatal(n, err)
			}
			if n, err := c.AwaitHead(into); err != nil || string(into[:n]) != "right" {
				t.Fatalf("%q, %v", into[:n], err)
			}
			p.Put(c)
		}
	}, Config{})
}

// A write without progress ends; one that makes some may take longer than that.
func TestWriteTimeout(t *testing.T) {
	const timeout = time.Second
	var pace atomic.Pointer[chan bool] // a value of it lets the server read a piece
	serve := func(nc net.Conn, ended <-chan struct{}) {
		p := make([]byte, 1<<20)
		for range *pace.Load() {
			if _, err := io.ReadFull(nc, p); err != nil {
				return
			}
		}
		<-ended
	}
	onEveryWay(t, serve, func(t *testing.T, p *Pool) {
		slow := make(chan bool)
		pace.Store(&slow)
		c := mustGet(t, p)
		go func() {
			defer close(slow)
			for range 9 {
				time.Sleep(timeout / 8)
				slow <- false
			}
		}()
		start := time.Now()
		n, err := c.Write(make([]byte, 256<<20))
		wantIO(t, err, IOError{Timeout: true})
		if took := time.Since(start); took < 2*timeout || n < 9<<20 {
			t.Errorf("gave up after %v and %d bytes", took, n)
		}
		p.Discard(c, Failed)
	}, Config{WriteTimeout: timeout})
}

// A server that is away is an error at once, one that does not answer is one after
// ConnectTimeout; the first request after it is back succeeds.
func TestAwayAndBack(t *testing.T) {
	o := newOrigin(t, "tcp", echo)
	s := o.server()
	p := newPool(t, Config{Servers: []Server{s}, ConnectTimeout: time.Minute})
	c := mustGet(t, p)
	mustAsk(t, c, "one")
	p.Put(c)
	o.stop()
	c = mustGet(t, p)
	_, err := c.Ask([]byte("x"), make([]byte, 10))
	wantIO(t, err, IOError{Stale: true})
	p.Discard(c, Unknown)
	for range 10 {
		if _, err := p.Get(netip.Addr{}, nil, false); !isDial(err, false) {
			t.Fatal(err)
		}
	}
	if s := p.Stats().Servers[0]; s.DialErrors["refused"] != 10 || !s.Ejected {
		t.Errorf("%+v", s)
	}
	ln, err := net.Listen("tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, &origin{Listener: ln}, echo)
	c = mustGet(t, p)
	mustAsk(t, c, "two")
	p.Put(c)
	if s := p.Stats().Servers[0]; s.Ejected {
		t.Errorf("%+v", s)
	}

	hole := newPool(t, Config{Servers: []Server{{Network: "tcp", Address: faultproxy.BlackHole(t), Name: "hole"}}, ConnectTimeout: 50 * time.Millisecond})
	if _, err := hole.Get(netip.Addr{}, nil, false); !isDial(err, true) {
		t.Error(err)
	}
	if s := hole.Stats().Servers[0]; s.DialErrors["timeout"] != 1 || s.InUse != 0 {
		t.Errorf("%+v", s)
	}
}

func isDial(err error, timeout bool) bool {
	var dial *DialError
	return errors.As(err, &dial) && dial.Timeout == timeout
}

// What can be wrong in a handshake, and that it ends in time.
func TestHandshake(t *testing.T) {
	server, client := redistest.NewCertificate(t, time.Now().Add(time.Hour)).Configs(t)
	shake := func(nc net.Conn, _ <-chan struct{}) { _ = tls.Server(nc, server).Handshake() }
	other := client.Clone()
	other.ServerName = "example.com"
	for name, tt := range map[string]struct {
		serve handler
		with  *tls.Config
		class string
	}{
		"distrusted": {shake, &tls.Config{MinVersion: tls.VersionTLS12}, "tls"},
		"other name": {shake, other, "tls"},
		"no TLS":     {func(nc net.Conn, _ <-chan struct{}) { _, _ = nc.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, client, "tls"},
		"silent":     {func(_ net.Conn, ended <-chan struct{}) { <-ended }, client, "timeout"},
	} {
		s := newOrigin(t, "tcp", tt.serve).server()
		s.TLS = tt.with
		patience := time.Minute
		if tt.class == "timeout" {
			patience = 50 * time.Millisecond
		}
		p := newPool(t, Config{Servers: []Server{s}, ConnectTimeout: patience})
		if _, err := p.Get(netip.Addr{}, nil, false); !isDial(err, tt.class == "timeout") {
			t.Errorf("%s: %v", name, err)
		}
		if s := p.Stats().Servers[0]; s.DialErrors[tt.class] != 1 || s.InUse != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	server.NextProtos = []string{"h2", "http/1.1"}
	s := newOrigin(t, "tcp", func(nc net.Conn, ended <-chan struct{}) { echo(tls.Server(nc, server), ended) }).server()
	s.TLS = &tls.Config{RootCAs: client.RootCAs} // the name is that of the address, the version does not matter
	p := newPool(t, Config{Servers: []Server{s}})
	for range 3 {
		c := mustGet(t, p)
		mustAsk(t, c, "x")
		if state := c.NetConn().(*tls.Conn).ConnectionState(); state.NegotiatedProtocol != "http/1.1" || state.ServerName != "" && state.ServerName != "127.0.0.1" {
			t.Errorf("%+v", state)
		}
		p.Discard(c, Fine)
	}
}
