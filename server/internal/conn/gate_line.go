package conn

import (
	"bytes"

	"github.com/fastlimit/fastlimit/internal/ascii"
	"github.com/fastlimit/fastlimit/server/internal/text"
)

// tokenByte are the bytes of a token, RFC 9110 §5.6.2.
var tokenByte = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()

// nameLength returns the length of the token at the start of the line, or 0 unless
// a colon follows it. It looks only at the bytes that keep would have kept.
func nameLength(line []byte) int {
	for i, c := range line[:min(len(line), lineKept)] {
		if !tokenByte[c] {
			if c != ':' {
				return 0
			}
			return i
		}
	}
	return 0
}

// plainFields returns the length of the field lines at the start of p that are
// complete, valid and irrelevant to the framing, as nearly all are. The first other
// line is left to field. This loop is what makes the gate cheap (BenchmarkGate).
func plainFields(p []byte) (n int) {
	for {
		line := p[n:]
		name := 0
		for name < len(line) && tokenByte[line[name]] {
			name++
		}
		if name == 0 || name == len(line) || line[name] != ':' || special(name, line[0]) {
			return n
		}
		end := bytes.IndexByte(line[name:], '\n') + name
		if end <= name || end > lineKept || line[end-1] != '\r' {
			return n
		}
		n += end + 1
	}
}

// special reports whether a name of this length and first letter may be one
// that field knows.
func special(length int, first byte) bool {
	switch length {
	case len("forwarded"): // and x-real-ip
		return first|0x20 == 'f' || first|0x20 == 'x'
	case len("connection"), len("content-length"):
		return first|0x20 == 'c'
	case len("x-forwarded-for"):
		return first|0x20 == 'x'
	case len("transfer-encoding"):
		return first|0x20 == 't'
	}
	return false
}

// field checks a field line of a head, and notes the fields that say where the
// message ends.
func (g *gate) field(line []byte) *Violation {
	if line[0] == ' ' || line[0] == '\t' {
		return errFolded
	}
	n := nameLength(line)
	if n == 0 {
		return errFieldName
	}
	name := line[:n]
	switch n {
	case len("forwarded"), len("x-forwarded-for"): // and x-real-ip
		g.forwarded = g.forwarded || isForwarding(name)
	case len("connection"):
		if text.IsName(name, "connection") {
			return g.connection(line[n+1:])
		}
	case len("content-length"):
		if text.IsName(name, "content-length") {
			return g.contentLength(line[n+1:])
		}
	case len("transfer-encoding"):
		if text.IsName(name, "transfer-encoding") {
			return g.transferEncoding(line[n+1:])
		}
	}
	return nil
}

func (g *gate) connection(value []byte) *Violation {
	if g.overlong {
		return errConnection
	}
	g.lastOne = g.lastOne || asksToClose(value)
	return nil
}

func (g *gate) contentLength(value []byte) *Violation {
	if g.length {
		return errTwoLengths
	}
	g.length = true
	value = text.TrimBlanks(value)
	if g.overlong || len(value) == 0 || len(value) > maxLengthDigits {
		return errLength
	}
	for _, c := range value {
		if c < '0' || '9' < c {
			return errLength
		}
		g.left = 10*g.left + int64(c-'0')
	}
	return nil
}

func (g *gate) transferEncoding(value []byte) *Violation {
	value = text.TrimBlanks(value)
	if g.chunked || g.overlong || !text.IsName(value, "chunked") {
		return errCoding
	}
	g.chunked = true
	return nil
}

// chunkLine checks the size of a chunk and its extensions. It does not parse
// extensions, since none are used here.
func (g *gate) chunkLine(line []byte) *Violation {
	n, size := 0, int64(0)
	for ; n < len(line); n++ {
		digit := ascii.Hex(line[n])
		if digit < 0 {
			break
		}
		if n == maxChunkDigits {
			return errChunkSize
		}
		size = size<<4 | int64(digit)
	}
	extension := line[n:]
	switch {
	case n == 0 || len(extension) > 0 && extension[0] != ';':
		return errChunkSize
	case g.overlong || !isText(extension):
		return errChunkLine
	}
	if g.overhead += len(extension); g.overhead > maxOverhead {
		return errChunkOverhead
	}
	g.left, g.state = size, gateChunk
	if size == 0 {
		g.state = gateTrailer
	}
	return nil
}

func (g *gate) trailer(line []byte) *Violation {
	if len(line) == 0 {
		g.endOfMessage()
		return nil
	}
	switch {
	case line[0] == ' ' || line[0] == '\t':
		return errFolded
	case nameLength(line) == 0:
		return errFieldName
	case !isText(line):
		return errTrailer
	}
	if g.overhead += len(line) + len("\r\n"); g.overlong || g.overhead > maxOverhead {
		return errChunkOverhead
	}
	return nil
}

// isText reports whether b has no control bytes except tabs.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
