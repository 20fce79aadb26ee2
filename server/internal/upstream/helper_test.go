package upstream

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.ExitCode(m.Run())) }

// origin is a server on loopback that hands each connection to serve.
type origin struct {
	net.Listener
	wg    sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn
	ended chan struct{} // closed by stop
}

// handler serves a connection, which is closed when it returns; ended is closed when the
// test ends.
type handler = func(nc net.Conn, ended <-chan struct{})

func newOrigin(t testing.TB, network string, handle handler) *origin {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(testkit.ShortDir(t), "s")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, &origin{Listener: ln}, handle)
}

// serve accepts connections until the test ends.
func serve(t testing.TB, o *origin, handle handler) *origin {
	t.Helper()
	o.ended = make(chan struct{})
	o.wg.Go(func() {
		for {
			nc, err := o.Accept()
			if err != nil {
				return
			}
			o.mu.Lock()
			o.conns = append(o.conns, nc)
			o.mu.Unlock()
			o.wg.Go(func() { defer nc.Close(); handle(nc, o.ended) })
		}
	})
	t.Cleanup(o.stop)
	return o
}

// stop closes the listener and all connections.
func (o *origin) stop() {
	if o.Close() == nil {
		close(o.ended)
	}
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
func echo(nc net.Conn, _ <-chan struct{}) {
	_, _ = io.Copy(struct{ io.Writer }{nc}, struct{ io.Reader }{nc})
}

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
	c, err := p.Get(netip.Addr{}, nil, false)
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

// eventually waits for something to happen.
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

// Errors of dials.
var (
	errLocal = &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	errAway  = &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	errName  = &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "a", IsTimeout: true}}
	errSlow  = &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
)

// failing is a dialer that fails.
func failing(err error) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return nil, err }
}

// waits is a [Waiter] that is sent away when it is closed.
type waits <-chan struct{}

func (w waits) BeginQueue() <-chan struct{} { return w }
