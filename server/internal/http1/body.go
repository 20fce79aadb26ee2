package http1

import (
	"bytes"

	"github.com/fastlimit/fastlimit/internal/ascii"
)

const (
	// MaxTrailers bounds the chunk extensions and trailers of a message together. It is less than fasthttp's
	// buffer, which must hold them in the decision service.
	MaxTrailers = 2 << 10

	maxChunkDigits = 15
)

// Body finds the payload of a message in the bytes after its head. The zero value is a message without one.
// It keeps no reference to its input, and at most MaxTrailers of memory.
type Body struct {
	state    bodyState
	left     int64  // bytes of the body or the chunk
	overhead int    // bytes of chunk extensions and trailers
	trailers []byte // those that may be forwarded
	wrong    *Error // what is wrong, in bodyBroken
}

type bodyState uint8

const (
	bodyDone bodyState = iota
	bodyLength
	bodyUntilClose
	bodyChunkLine
	bodyChunk
	bodyChunkEnd // the CRLF after a chunk
	bodyTrailer
	bodyBroken
)

// Begin begins the body of another message: length is from its head.
func (b *Body) Begin(length int64) {
	*b = Body{left: length, trailers: b.trailers[:0]}
	switch {
	case length == Chunked:
		b.state = bodyChunkLine
	case length == UntilClose:
		b.state = bodyUntilClose
	case length > 0:
		b.state = bodyLength
	}
}

// Done reports whether the body has ended. A body until the end of the connection never has: the caller knows
// when.
func (b *Body) Done() bool { return b.state == bodyDone }

// Trailers returns the field lines of the trailer section that may be forwarded, once the body is done: none
// about framing, routing, the connection or the client's identity. They are valid until the next Begin.
func (b *Body) Trailers() []byte { return b.trailers }

// Next examines the next bytes: p[:skip] is framing, to be dropped, p[skip:skip+n] payload. Call it again
// with what follows, until the body is done. If skip and n are 0, more bytes are needed: then keep p, which
// has at most MaxLine bytes, and add to it. Bytes after the end of the body are not examined. An error, an
// [*Error], is repeated at each call.
func (b *Body) Next(p []byte) (skip, n int, err error) {
	for b.state != bodyBroken && skip < len(p) {
		switch b.state {
		case bodyDone:
			return skip, 0, nil
		case bodyUntilClose:
			return skip, len(p) - skip, nil
		case bodyLength, bodyChunk:
			n = int(min(b.left, int64(len(p)-skip)))
			if b.left -= int64(n); b.left == 0 {
				b.payloadRead()
			}
			return skip, n, nil
		}
		line, e := b.line(p[skip:])
		if e != nil {
			b.state, b.wrong = bodyBroken, e
			break
		}
		if line == 0 {
			return skip, 0, nil
		}
		skip += line
	}
	if b.state == bodyBroken {
		return 0, 0, b.wrong
	}
	return skip, 0, nil
}

func (b *Body) payloadRead() {
	if b.state == bodyChunk {
		b.state = bodyChunkEnd
	} else {
		b.state = bodyDone
	}
}

// line parses the line of framing at the start of p, and returns its length with its CRLF, 0 if it is not
// complete.
func (b *Body) line(p []byte) (n int, e *Error) {
	if b.state == bodyChunkEnd {
		switch {
		case p[0] != '\r' || len(p) > 1 && p[1] != '\n':
			return 0, ErrChunkEnd
		case len(p) == 1:
			return 0, nil
		}
		b.state = bodyChunkLine
		return len("\r\n"), nil
	}
	end := bytes.IndexByte(p[:min(len(p), MaxLine+1)], '\n')
	switch {
	case end < 0 && len(p) <= MaxLine:
		return 0, nil
	case end < 0 && b.state == bodyChunkLine:
		return 0, ErrChunkLine
	case end < 0:
		return 0, ErrChunkOverhead
	case end == 0 || p[end-1] != '\r':
		return 0, ErrBareLF
	case b.state == bodyChunkLine:
		e = b.chunkLine(p[:end-1])
	default:
		e = b.trailer(p[:end-1])
	}
	return end + 1, e
}

func (b *Body) chunkLine(line []byte) *Error {
	size, extension, e := ParseChunk(line)
	if e != nil {
		return e
	}
	if b.overhead += extension; b.overhead > MaxTrailers {
		return ErrChunkOverhead
	}
	b.left, b.state = size, bodyChunk
	if size == 0 {
		b.state = bodyTrailer
	}
	return nil
}

func (b *Body) trailer(line []byte) *Error {
	if len(line) == 0 {
		b.state = bodyDone
		return nil
	}
	if e := CheckTrailer(line); e != nil {
		return e
	}
	if b.overhead += len(line) + len("\r\n"); b.overhead > MaxTrailers {
		return ErrChunkOverhead
	}
	if mayTrail(line[:NameLength(line)]) {
		b.trailers = append(append(b.trailers, line...), "\r\n"...)
	}
	return nil
}

// ParseChunk parses the line before a chunk, without its CRLF: the size of the chunk and the length of its
// extensions, which it does not parse, since none are used here.
func ParseChunk(line []byte) (size int64, extension int, e *Error) {
	n := 0
	for ; n < len(line); n++ {
		digit := ascii.Hex(line[n])
		if digit < 0 {
			break
		}
		if n == maxChunkDigits {
			return 0, 0, ErrChunkSize
		}
		size = size<<4 | int64(digit)
	}
	switch {
	case n == 0 || n < len(line) && line[n] != ';':
		return 0, 0, ErrChunkSize
	case !isText(line[n:]):
		return 0, 0, ErrChunkLine
	}
	return size, len(line) - n, nil
}

// CheckTrailer checks a line of a trailer section, without its CRLF.
func CheckTrailer(line []byte) *Error {
	if e := checkName(line); e != nil {
		return e
	}
	if !isText(line) {
		return ErrTrailer
	}
	return nil
}
