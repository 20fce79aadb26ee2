//go:build linux

package redistest

import (
	"bufio"
	"net"
	"strings"
	"time"
)

// Session is a connection that stays open, for servers that accept no new one.
type Session struct {
	s    *Server
	conn net.Conn
	r    *bufio.Reader
}

// Session opens one; it is closed when the test ends.
func (s *Server) Session() *Session {
	s.t.Helper()
	c, err := net.DialTimeout("tcp", s.Addr, 5*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return &Session{s: s, conn: c, r: bufio.NewReader(c)}
}

// Do runs one command. An error reply fails the test.
func (c *Session) Do(args ...string) string {
	c.s.t.Helper()
	_ = c.conn.SetDeadline(time.Now().Add(20 * time.Second))
	r, err := roundTrip(c.conn, c.r, args)
	if err != nil || strings.HasPrefix(r, "-") {
		c.s.t.Fatalf("redis %q: %s %v", args, r, err)
	}
	return r
}

// Send sends a command without waiting for the reply.
func (c *Session) Send(args ...string) { go func() { _, _ = roundTrip(c.conn, c.r, args) }() }
