//go:build linux

package redistest

import (
	"bufio"
	"errors"
	"net"
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
	c, err := s.dial()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.conn.Close() })
	return c
}

// dial opens a session and logs in, if [Server.Auth] said how.
func (s *Server) dial() (*Session, error) {
	conn, err := net.DialTimeout("tcp", s.Addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	c := &Session{s, conn, bufio.NewReader(conn)}
	if s.auth != nil {
		if _, err := c.try(s.auth); err != nil { // an error reply shows in the next command
			return nil, errors.Join(err, conn.Close())
		}
	}
	return c, nil
}

// Do runs one command. An error reply fails the test.
func (c *Session) Do(args ...string) string {
	c.s.t.Helper()
	r, err := c.try(args)
	return c.s.must(args, r, err)
}

// try bounds the wait: a server that hangs must fail its test, not stop it.
func (c *Session) try(args []string) (string, error) {
	_ = c.conn.SetDeadline(time.Now().Add(2 * time.Minute))
	return roundTrip(c.conn, c.r, args)
}

// Send sends a command without waiting for the reply.
func (c *Session) Send(args ...string) { go func() { _, _ = roundTrip(c.conn, c.r, args) }() }
