package load

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// conn is one keep-alive connection that sends a request and reads its answer,
// one at a time. It makes two system calls for both and allocates nothing
// (TestReceiveDoesNotAllocate), so that one core of load keeps one core of server
// busy. It parses just enough HTTP/1.1 to know the status and where the answer
// ends.
type conn struct {
	net.Conn
	answerReader

	buf []byte
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

// receive reads one answer. After an error, or an answer with close set, the
// connection must not be used again.
func (c *conn) receive() (answer, error) {
	for {
		n, err := c.Conn.Read(c.buf)
		if n > 0 {
			if a, done, err := c.read(c.buf[:n]); done || err != nil {
				return a, err
			}
		}
		if err != nil {
			return answer{}, err
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

// answerReader frames answers that come in pieces, for a reader that must not wait.
// The zero value expects the beginning of one. Not safe for concurrent use.
type answerReader struct {
	rest []byte // of a head that is not complete
	got  answer // whose body is under way
	left int    // bytes of that
}

// read takes what has come, which may be used again once it returns. An answer that
// comes in one piece is not copied.
func (r *answerReader) read(b []byte) (a answer, done bool, err error) {
	if r.left == 0 {
		if len(r.rest) > 0 {
			r.rest = append(r.rest, b...)
			b = r.rest
		}
		end := bytes.Index(b, []byte("\r\n\r\n"))
		switch {
		case end < 0 && len(b) > maxAnswer:
			return a, false, nonsensef("the headers of the answer exceed %d bytes", maxAnswer)
		case end < 0:
			if len(r.rest) == 0 {
				r.rest = append(r.rest, b...)
			}
			return a, false, nil
		}
		end += len("\r\n\r\n")
		if r.got, err = parseHead(b[:end]); err != nil {
			return a, false, err
		}
		r.left, b = r.got.body, b[end:]
	}
	if len(b) > r.left {
		return a, false, nonsensef("%d bytes after the answer", len(b)-r.left)
	}
	r.left -= len(b)
	r.rest = r.rest[:0]
	return r.got, r.left == 0, nil
}
