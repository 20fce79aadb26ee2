//go:build linux

package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// Do runs one command on a connection of its own and returns the reply, nested
// arrays flattened to lines. An error reply fails the test.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	r, err := s.Try(args...)
	return s.must(args, r, err)
}

// Try is Do that returns errors; an error reply is a string that begins with
// "-".
func (s *Server) Try(args ...string) (string, error) {
	c, err := s.dial()
	if err != nil {
		return "", err
	}
	defer func() { _ = c.conn.Close() }()
	return c.try(args)
}

// must fails the test unless the reply is a good one.
func (s *Server) must(args []string, reply string, err error) string {
	s.t.Helper()
	if err != nil || strings.HasPrefix(reply, "-") {
		s.t.Fatalf("redis %q: %s %v", args, reply, err)
	}
	return reply
}

func roundTrip(c net.Conn, r *bufio.Reader, args []string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.Write([]byte(b.String())); err != nil {
		return "", err
	}
	return readReply(r)
}

var errProtocol = errors.New("redistest: not a RESP2 reply")

func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", errProtocol
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+', ':':
		return rest, nil
	case '-':
		return line, nil
	case '$':
		return readBulk(r, rest)
	case '*':
		n, err := strconv.Atoi(rest)
		if err != nil {
			return "", errProtocol
		}
		var items []string
		for range n {
			item, err := readReply(r)
			if err != nil {
				return "", err
			}
			items = append(items, item)
		}
		return strings.Join(items, "\n"), nil
	default:
		return "", errProtocol
	}
}

func readBulk(r *bufio.Reader, length string) (string, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 {
		return "", err // nil: the null reply
	}
	buf := make([]byte, n+2)
	_, err = io.ReadFull(r, buf)
	return string(buf[:n]), err
}
