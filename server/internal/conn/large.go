package conn

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/valyala/fasthttp"
)

// smallHead is the read buffer of every connection. A longer head goes to a
// second fasthttp server whose buffer is as long as a head may be, for that one
// request; then the connection returns to the first. So a connection holds the
// larger buffer only while it needs it.
//
//	fasthttp, 4 KiB ── head does not fit ──► fasthttp, MaxHeaderBytes
//	      ▲                                          │
//	      └────────────── one answer ────────────────┘
const smallHead = 4 << 10

// largeHead is the progress of a connection with a head that may need the larger reader. It belongs to the
// goroutine of the connection.
type largeHead struct {
	buffer []byte // of fasthttp's reader
	head   []byte // the part of a head that did not fit it
	rest   []byte // what came after that head

	special  bool // reads are served by readSpecial
	active   bool // the larger reader has the connection
	ended    bool // the whole head has been delivered
	answered bool
	lf       bool // the last byte was LF, perhaps with a CR after it
}

// noteFull is called when a read has filled p. If p reaches the end of fasthttp's buffer and the buffer has
// no end of a head, fasthttp will refuse the head as too long. The bytes are kept for the larger reader,
// since that buffer is reused.
func (l *largeHead) noteFull(p []byte, during phase) {
	l.head = nil
	if len(p) == 0 || len(p) > len(l.buffer) || &p[len(p)-1] != &l.buffer[len(l.buffer)-1] || during == body {
		return
	}
	var lf bool
	if endOfHead(l.buffer, &lf) < 0 {
		l.head = slices.Clone(l.buffer)
	}
}

// endOfHead returns the length of b up to the end of the empty line in it,
// negative if there is none. lf is carried from one piece of a head to the next.
func endOfHead(b []byte, lf *bool) int {
	for i := 0; i < len(b); i++ {
		switch {
		case *lf && b[i] == '\n':
			return i + 1
		case b[i] == '\n':
			*lf = true
		case *lf && b[i] == '\r':
		default:
			*lf = false
			next := bytes.IndexByte(b[i:], '\n')
			if next < 0 {
				return -1
			}
			i += next - 1
		}
	}
	return -1
}

// refused reports whether the small reader failed on a head that the larger one takes.
func (l *largeHead) refused(err error) bool {
	var small *fasthttp.ErrSmallBuffer
	return len(l.head) > 0 && errors.As(err, &small)
}

func (l *largeHead) begin() {
	*l = largeHead{head: l.head, rest: l.rest, special: true, active: true}
}

// end reports whether the connection continues.
func (l *largeHead) end() bool {
	ok := l.answered
	*l = largeHead{rest: l.rest, special: len(l.rest) > 0}
	return ok
}

// again returns bytes that were read earlier, if any.
func (l *largeHead) again(p []byte) (n int, ok bool) {
	switch {
	case len(l.head) > 0:
		n = copy(p, l.head)
		l.head = l.head[n:]
	case len(l.rest) > 0:
		n = copy(p, l.rest)
		if l.rest = l.rest[n:]; len(l.rest) == 0 {
			l.rest, l.special = nil, l.active
		}
	default:
		return 0, false
	}
	return n, true
}

// toEnd returns how much of p belongs to the head, and keeps the rest.
func (l *largeHead) toEnd(p []byte) int {
	end := endOfHead(p, &l.lf)
	if end < 0 {
		return len(p)
	}
	l.rest = append(slices.Clone(p[end:]), l.rest...)
	l.ended = true
	return end
}

// readSpecial returns bytes that were read earlier, and nothing beyond the end of a long head: what follows
// belongs to the next reader.
func (c *Conn) readSpecial(p []byte) (n int, err error) {
	l := &c.large
	if l.answered {
		return 0, io.EOF // for this reader
	}
	n, ok := l.again(p)
	if !ok {
		n, err = c.receive(p)
	}
	if n > 0 && c.in.unborn {
		c.begin(p)
	}
	switch {
	case l.active && !l.ended:
		n = l.toEnd(p[:n])
	case !l.active && n == len(p):
		l.noteFull(p, c.phase())
	}
	return n, err
}
