package server

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// listen binds a TCP address. setting is what the operator calls it.
//
// One plain listener per address: two with SO_REUSEPORT gained nothing on 2
// cores with wrk on the same machine. With keep-alive 9.2 µs of CPU a request
// either way; with a connection per request 25 and 26 µs plain, 27 and 29 µs
// with SO_REUSEPORT, 24 to 27 µs where TCP_DEFER_ACCEPT was added (medians of
// two runs of 8 pairs; they vary by 15 %). The kernel would also spread
// connections by hash, not by who is idle.
func listen(setting, address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if err == nil {
		return ln, nil
	}
	fix := "write host:port, for example 127.0.0.1:8080"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		fix = "another process has it: stop that one, or choose another port (0 picks a free one)"
	case errors.Is(err, syscall.EACCES):
		fix = "ports below 1024 need CAP_NET_BIND_SERVICE: grant it, or choose a port from 1024 on"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		fix = "no interface of this machine has the address: use one that has, or 0.0.0.0 or [::] for all"
	}
	return nil, fmt.Errorf("fastlimit/server: %s %s: %w; %s", setting, address, err, fix)
}

// steadyListener survives failures of Accept that pass: fasthttp would stop
// serving for good when file descriptors run out, which is what a flood of
// connections brings about.
type steadyListener struct {
	net.Listener
	failed func(error)

	once sync.Once
	err  error
}

// Accept implements net.Listener.
func (l *steadyListener) Accept() (net.Conn, error) {
	const least, most = 5 * time.Millisecond, time.Second
	for wait := least; ; wait = min(2*wait, most) {
		c, err := l.Listener.Accept()
		if err == nil || !passing(err) {
			return c, err
		}
		l.failed(err)
		time.Sleep(wait)
	}
}

// Close implements net.Listener. fasthttp closes it again when it shuts down.
func (l *steadyListener) Close() error {
	l.once.Do(func() { l.err = l.Listener.Close() })
	return l.err
}

func passing(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, // of this machine, for now
		syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EPROTO, // of this connection
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// conns knows the open connections of a listener, to cut them when a drain
// takes too long: fasthttp would let them go on. Safe for concurrent use; the
// zero value is ready.
type conns struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// note is called by fasthttp at every change of state, twice per request, and
// must be cheap for those.
func (c *conns) note(conn net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateNew:
		c.mu.Lock()
		if c.open == nil {
			c.open = make(map[net.Conn]struct{})
		}
		c.open[conn] = struct{}{}
		c.mu.Unlock()
	case fasthttp.StateClosed:
		c.mu.Lock()
		delete(c.open, conn)
		c.mu.Unlock()
	}
}

func (c *conns) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// cut closes all and returns how many they were.
func (c *conns) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		conn.Close()
	}
	return len(c.open)
}
