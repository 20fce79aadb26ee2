package load

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// conn is one keep-alive connection of a client that sends a request and reads
// its answer, one at a time. It spends two system calls on both and allocates
// nothing, so that one core of load keeps one core of server busy. It reads
// just enough HTTP/1.1 to know the status and where the answer ends.
type conn struct {
	net.Conn
	buf        []byte // unread bytes are buf[start:end]
	start, end int
}

const (
	// maxAnswer bounds the headers of an answer. What is longer is no answer
	// of a limiter.
	maxAnswer = 16 << 10
	maxStatus = 600
)

// answer is what a client learns from one.
type answer struct {
	status int
	body   int  // bytes
	close  bool // the server closes the connection after it
}

// nonsense is an answer that no limiter gives: it ends a run, while a broken
// connection is counted and replaced.
type nonsense struct{ error }

func (e nonsense) Unwrap() error { return e.error }

func nonsensef(format string, args ...any) error { return nonsense{fmt.Errorf(format, args...)} }

var errNoLength = nonsense{errors.New("the answer has no Content-Length: a limiter under test must send one")}

func newConn(c net.Conn) *conn { return &conn{Conn: c, buf: make([]byte, maxAnswer)} }

// dialer returns a dialer from a local address; nil means any.
func dialer(from net.IP, timeout time.Duration) *net.Dialer {
	d := &net.Dialer{Timeout: timeout}
	if from != nil {
		d.LocalAddr = &net.TCPAddr{IP: from}
	}
	return d
}

// send writes one request.
func (c *conn) send(request []byte) error {
	_, err := c.Write(request)
	return err
}

// receive reads one answer. The connection is of no more use if it closes or
// fails.
func (c *conn) receive() (answer, error) {
	head, err := c.head()
	if err != nil {
		return answer{}, err
	}
	a, err := parseHead(head)
	if err != nil {
		return answer{}, err
	}
	return a, c.skip(a.body)
}

// head returns status line and headers, which are valid until the next read,
// and leaves the body unread.
func (c *conn) head() ([]byte, error) {
	seen := 0
	for {
		unread := c.buf[c.start:c.end]
		if i := bytes.Index(unread[seen:], []byte("\r\n\r\n")); i >= 0 {
			n := seen + i + len("\r\n\r\n")
			c.start += n
			return unread[:n], nil
		}
		seen = max(0, len(unread)-3)
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads once, after the unread bytes.
func (c *conn) fill() error {
	if c.start == c.end {
		c.start, c.end = 0, 0
	}
	if c.end == len(c.buf) {
		if c.start == 0 {
			return nonsensef("the headers of the answer exceed %d bytes", maxAnswer)
		}
		c.end = copy(c.buf, c.buf[c.start:c.end])
		c.start = 0
	}
	n, err := c.Read(c.buf[c.end:])
	c.end += n
	if n > 0 {
		return nil
	}
	return err
}

// skip drops n bytes of body.
func (c *conn) skip(n int) error {
	for {
		unread := c.end - c.start
		if n <= unread {
			c.start += n
			return nil
		}
		n -= unread
		c.start = c.end
		if err := c.fill(); err != nil {
			return err
		}
	}
}

// parseHead reads status line and headers.
func parseHead(head []byte) (a answer, err error) {
	line, rest, _ := bytes.Cut(head, []byte("\r\n"))
	if len(line) < len("HTTP/1.1 200") || string(line[:len("HTTP/1.")]) != "HTTP/1." {
		return a, nonsensef("not an HTTP/1 answer: it begins with %q", line[:min(len(line), 40)])
	}
	a.status, err = strconv.Atoi(string(line[9:12]))
	if err != nil || a.status < 200 || a.status >= maxStatus {
		return a, nonsensef("status line %q: want a status from 200 to 599", line[:min(len(line), 40)])
	}
	a.body = -1
	for len(rest) > len("\r\n") {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		if len(line) == 0 || line[0]|0x20 != 'c' { // all that is looked for
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if a.body, err = strconv.Atoi(string(value)); err != nil || a.body < 0 {
				return a, nonsensef("Content-Length %q: want a number", value)
			}
		case bytes.EqualFold(name, []byte("Connection")):
			a.close = bytes.EqualFold(value, []byte("close"))
		}
	}
	if a.status == 204 || a.status == 304 {
		a.body = 0
	}
	if a.body < 0 {
		return a, errNoLength
	}
	return a, nil
}
