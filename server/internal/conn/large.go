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

// largeHead is how far a connection is with a head that went to the larger
// reader.
type largeHead struct {
	active   bool
	ended    bool // the head was handed over to its end
	answered bool
	lf       bool // the last byte was LF, perhaps with a CR after it
}

// noteFull is called when a read has filled p. If p reaches the end of fasthttp's
// buffer and the buffer holds no end of a head, fasthttp will refuse the head as too
// long. The bytes are kept for the larger reader, since that buffer is reused.
func (c *Conn) noteFull(p []byte) {
	c.head = nil
	if len(p) == 0 || len(p) > len(c.buffer) || &p[len(p)-1] != &c.buffer[len(c.buffer)-1] || c.phase() == body {
		return
	}
	var lf bool
	if endOfHead(c.buffer, &lf) < 0 {
		c.head = slices.Clone(c.buffer)
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

// tooLong reports whether the small reader failed on a head that the larger one
// takes. If so, fasthttp's answer is dropped.
func (c *Conn) tooLong(err error) bool {
	var small *fasthttp.ErrSmallBuffer
	if len(c.head) == 0 || !errors.As(err, &small) {
		return false
	}
	c.mute = true
	return true
}

func (c *Conn) beginLarge() {
	c.large = largeHead{active: true}
	c.special, c.mute, c.unread = true, false, false
	c.buffer = nil
}

// endLarge reports whether the connection goes on.
func (c *Conn) endLarge() bool {
	ok := c.large.answered
	c.large, c.buffer, c.head = largeHead{}, nil, nil
	c.special = len(c.rest) > 0
	return ok
}

// readSpecial returns bytes that were read earlier, and no byte beyond the end of a
// long head: what follows belongs to the next reader.
func (c *Conn) readSpecial(p []byte) (n int, err error) {
	if c.large.answered {
		return 0, io.EOF // for this reader
	}
	switch {
	case len(c.head) > 0:
		n = copy(p, c.head)
		c.head = c.head[n:]
	case len(c.rest) > 0:
		n = copy(p, c.rest)
		if c.rest = c.rest[n:]; len(c.rest) == 0 {
			c.rest, c.special = nil, c.large.active
		}
	default:
		n, err = c.receive(p)
	}
	if n > 0 && c.unborn {
		c.begin(p)
	}
	if c.large.active && !c.large.ended {
		if end := endOfHead(p[:n], &c.large.lf); end >= 0 {
			c.rest = append(slices.Clone(p[end:n]), c.rest...)
			c.large.ended, n = true, end
		}
	} else if !c.large.active && n == len(p) {
		c.noteFull(p)
	}
	return n, err
}
