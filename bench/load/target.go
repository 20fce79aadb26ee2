// Package load sends HTTP requests to a limiter and measures the answers.
//
// Two loads: [Closed] tells what a server can do, [Open] how long clients wait
// at a rate that does not depend on the server. Both use keep-alive HTTP/1.1
// connections over plain TCP, each from a source address of its own, which is
// how a limiter tells its clients apart.
package load

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// Target is a URL that is asked. Get one from [NewTarget].
type Target struct {
	addr    string
	request []byte
	timeout time.Duration
	client  func() netip.Addr // nil: requests are those of their connection
	header  string            // that names the client

	// dial and sleep replace the network and the timer in tests.
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	sleep func(time.Duration)
}

// NewTarget parses an http URL. A connection is given up when an answer takes
// longer than the timeout, at the latest after twice that; 0 means 5 s.
func NewTarget(rawURL string, timeout time.Duration) (Target, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return Target{}, fmt.Errorf("bench: %w", err)
	}
	if u.Scheme != "http" || u.Hostname() == "" {
		return Target{}, fmt.Errorf("bench: %q is no target: write http://host:port/path (TLS is left out: it would be measured, not the limiter)", rawURL)
	}
	if timeout == 0 {
		timeout = 5 * time.Second
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return Target{
		addr:    net.JoinHostPort(u.Hostname(), port),
		request: fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: fastlimit-bench\r\n\r\n", http.MethodGet, u.RequestURI(), u.Host),
		timeout: timeout,
	}, nil
}

// As returns the target for requests that say, as a proxy does, whose they are:
// next, which is called for each and by several goroutines, in a header.
func (t Target) As(header string, next func() netip.Addr) Target {
	t.header, t.client = header, next
	return t
}

// appendRequest appends the next request.
func (t *Target) appendRequest(b []byte) []byte {
	if t.client == nil {
		return append(b, t.request...)
	}
	const end = len("\r\n")
	b = append(b, t.request[:len(t.request)-end]...)
	b = append(append(b, t.header...), ": "...)
	return append(t.client().AppendTo(b), "\r\n\r\n"...)
}

// Addr is the address that is connected to.
func (t *Target) Addr() string { return t.addr }

// Probe asks once and returns the status, so that a target that is not there
// or answers nonsense is known before a run.
func (t Target) Probe(ctx context.Context) (status int, err error) {
	c := &client{target: &t}
	defer c.drop()
	if err = c.send(ctx); err == nil {
		status, err = c.receive()
	}
	if err != nil {
		return 0, fmt.Errorf("bench: target %s: %w", t.addr, err)
	}
	return status, nil
}

// Loopback returns n source addresses of this machine, 127.1.0.1 and on. Linux
// takes all of 127.0.0.0/8 for its own.
func Loopback(n int) []net.IP {
	all := make([]net.IP, n)
	for i := range all {
		from := Source(i)
		all[i] = from[:]
	}
	return all
}

// Source is the ith of them.
func Source(i int) [4]byte { return [4]byte{127, byte(1 + i>>16), byte(i >> 8), byte(i)} }
