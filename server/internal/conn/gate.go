package conn

import (
	"bytes"
	"io"

	"github.com/fastlimit/fastlimit/server/internal/http1"
)

// gate checks the framing of HTTP/1 (RFC 9112) strictly, on the bytes of a connection before fasthttp's
// parser gets them. fasthttp is lenient: it accepts a bare LF as a line end, spaces within a field name,
// folded lines, Transfer-Encoding together with Content-Length and any chunk extension. Then one reader may
// see two requests where another sees one, and the raw bytes that would reveal it are gone once fasthttp has
// parsed them.
//
// The gate knows where each message ends, so it checks pipelined requests and
// chunked bodies too. At the first violation it withholds the rest of the line,
// so that fasthttp never sees a complete message, and ends the stream.
//
// It leaves to fasthttp what fasthttp checks itself: the syntax of the request
// line, control bytes in field values, Host. Invariant: for every message that
// fasthttp accepts both find the same end (FuzzGate).
//
// A line that arrives whole is checked in place. Of a line split over several reads the gate keeps the first
// lineKept bytes, so a slow sender costs no more memory than that. The zero value is ready. Used by its
// connection's goroutine.
type gate struct {
	state gateState

	blank    bool // an empty line came before the request line
	length   bool // the head has a Content-Length
	chunked  bool // the head has a Transfer-Encoding
	lastOne  bool // the head says that it is the last message: Connection: close
	partial  bool // kept holds the beginning of a line
	overlong bool // and the line is longer than that

	forwarded bool // some head on this connection had a forwarding header

	left     int64 // bytes of the body or the chunk
	overhead int   // bytes of chunk extensions and trailers of this message

	heads   uint32     // messages begun so far; they are numbered from 1
	last    uint32     // the message with Connection: close, 0: none yet
	wrong   uint32     // the message with the violation, 0: none yet
	problem *Violation // the violation

	kept []byte
}

type gateState uint8

const (
	gateRequestLine gateState = iota
	gateField
	gateBody
	gateChunkLine
	gateChunk
	gateChunkEnd // the CRLF after a chunk
	gateTrailer
	gateClosed // after the last message
	gateBroken // after a violation
)

// lineKept is longer than every line whose content matters.
const lineKept = http1.MaxLine

// Violation is a breach of the framing.
type Violation = http1.Error

// pass checks the bytes that were read, and returns how many fasthttp may have. It may change the first one
// beyond; see refuse.
func (g *gate) pass(p []byte) int {
	for i := 0; i < len(p); {
		switch g.state {
		case gateBody, gateChunk:
			n := min(g.left, int64(len(p)-i))
			i += int(n)
			if g.left -= n; g.left == 0 {
				g.bodyRead()
			}
			continue
		case gateClosed, gateBroken:
			return i
		case gateField:
			if !g.partial {
				i += plainFields(p[i:])
			}
		}
		end := bytes.IndexByte(p[i:], '\n')
		if end < 0 {
			if g.keep(p[i:]); g.overlong && g.state == gateChunkLine {
				return g.refuse(p, i, 0, http1.ErrChunkLine)
			}
			return len(p)
		}
		line := p[i : i+end]
		if g.partial {
			g.keep(line)
			line = g.kept
		} else if len(line) > lineKept {
			g.overlong = true
		}
		if v := g.line(line); v != nil {
			return g.refuse(p, i, end, v)
		}
		g.partial, g.overlong = false, false
		i += end + 1
	}
	return len(p)
}

// skip counts a simple message that was answered without passing. The caller undoes it with unskip if it was
// not answered.
func (g *gate) skip(h *Head) (was gateSkip) {
	was = gateSkip{g.forwarded, g.last}
	g.heads++
	g.forwarded = g.forwarded || h.forwarded
	if h.close {
		g.last = g.heads
	}
	return was
}

// gateSkip is the state that skip may have changed.
type gateSkip struct {
	forwarded bool
	last      uint32
}

func (g *gate) unskip(was gateSkip) {
	g.heads--
	g.forwarded, g.last = was.forwarded, was.last
}

// keep adds to a line that is split over reads: its beginning up to lineKept bytes, and after that only its
// last byte.
func (g *gate) keep(b []byte) {
	if !g.partial {
		g.partial, g.kept = true, g.kept[:0]
		if g.kept == nil {
			g.kept = make([]byte, 0, lineKept+1)
		}
	}
	if len(b) == 0 {
		return
	}
	n := min(len(b), lineKept-min(len(g.kept), lineKept))
	g.kept = append(g.kept, b[:n]...)
	if n < len(b) {
		g.overlong = true
		g.kept = append(g.kept[:lineKept], b[len(b)-1])
	}
}

// refuse ends the stream at a violation in the line p[i:i+end]. What precedes its LF may pass: without the LF
// it is no complete message. If fasthttp has no byte of the message yet, a substitute makes it answer instead
// of taking the end of the stream for the end of an idle connection.
func (g *gate) refuse(p []byte, i, end int, v *Violation) int {
	g.problem, g.wrong = v, g.heads
	begun := g.state != gateRequestLine
	g.state = gateBroken
	if begun {
		return i + end
	}
	g.wrong++
	p[i] = '?'
	return i + 1
}

// line checks a line without its LF.
func (g *gate) line(line []byte) *Violation {
	n := len(line) - 1
	if n < 0 || line[n] != '\r' {
		if g.state == gateChunkEnd {
			return http1.ErrChunkEnd
		}
		return http1.ErrBareLF
	}
	line = line[:n]
	switch g.state {
	case gateRequestLine:
		return g.requestLine(line)
	case gateField:
		if n > 0 {
			return g.field(line)
		}
		return g.endOfHead()
	case gateChunkLine:
		return g.chunkLine(line)
	case gateChunkEnd:
		if n > 0 {
			return http1.ErrChunkEnd
		}
		g.state = gateChunkLine
	default:
		return g.trailer(line)
	}
	return nil
}

func (g *gate) requestLine(line []byte) *Violation {
	if len(line) == 0 {
		if g.blank {
			return http1.ErrBlankLines
		}
		g.blank = true // RFC 9112 §2.2: at least one is ignored
		return nil
	}
	g.state, g.blank = gateField, false
	g.length, g.chunked, g.lastOne = false, false, false
	g.left, g.overhead = 0, 0
	g.heads++
	return nil
}

func (g *gate) endOfHead() *Violation {
	switch {
	case g.chunked && g.length:
		return http1.ErrLengthCoding
	case g.chunked:
		g.state = gateChunkLine
	case g.left > 0:
		g.state = gateBody
	default:
		g.endOfMessage()
	}
	return nil
}

func (g *gate) bodyRead() {
	if g.state == gateChunk {
		g.state = gateChunkEnd
	} else {
		g.endOfMessage()
	}
}

func (g *gate) endOfMessage() {
	g.state = gateRequestLine
	if g.lastOne {
		g.state, g.last = gateClosed, g.heads
	}
}

// over reports whether nothing more passes, and the error for the reader then.
func (g *gate) over() (bool, error) {
	switch g.state {
	case gateClosed:
		return true, io.EOF // RFC 9112 §9.6: nothing after it is processed
	case gateBroken:
		return true, g.problem
	}
	return false, nil
}

// violation returns what is wrong with a message, counted from 1, or nil.
func (g *gate) violation(message uint32) *Violation {
	if g.wrong != message {
		return nil
	}
	return g.problem
}
