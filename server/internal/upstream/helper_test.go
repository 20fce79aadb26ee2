package upstream

import (
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// origin is a server on loopback that hands each connection to serve.
type origin struct {
	net.Listener
	wg    sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn
}

func newOrigin(t testing.TB, network string, serve func(net.Conn)) *origin {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{Listener: ln}
	o.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			o.mu.Lock()
			o.conns = append(o.conns, nc)
			o.mu.Unlock()
			o.wg.Go(func() { defer nc.Close(); serve(nc) })
		}
	})
	t.Cleanup(o.stop)
	return o
}

// stop closes the listener and all connections.
func (o *origin) stop() {
	o.Close()
	o.mu.Lock()
	for _, nc := range o.conns {
		nc.Close()
	}
	o.mu.Unlock()
	o.wg.Wait()
}

// server is the origin for a Config.
func (o *origin) server() Server {
	a := o.Addr()
	return Server{Network: a.Network(), Address: a.String(), Name: a.String()}
}

// echo sends back what comes, in pieces as they come.
func echo(nc net.Conn) { _, _ = io.Copy(struct{ io.Writer }{nc}, struct{ io.Reader }{nc}) }

func newPool(t testing.TB, c Config) *Pool {
	t.Helper()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	p := New(c)
	t.Cleanup(p.Close)
	return p
}

func mustGet(t testing.TB, p *Pool) *Conn {
	t.Helper()
	c, err := p.Get(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mustAsk wants the echo of a request.
func mustAsk(t testing.TB, c *Conn, request string) {
	t.Helper()
	into := make([]byte, 1024)
	n, err := c.Ask([]byte(request), into)
	if err != nil || string(into[:n]) != request {
		t.Fatalf("asked %q, got %q, %v", request, into[:n], err)
	}
}

// eventually waits for what has to come by itself.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for range 2000 {
		if is() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("never " + what)
}
