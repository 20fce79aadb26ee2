package conn

import (
	"bytes"

	"github.com/fastlimit/fastlimit/server/internal/http1"
	"github.com/fastlimit/fastlimit/server/internal/text"
)

// plainFields returns the length of the field lines at the start of p that are complete, valid and irrelevant
// to the framing, as nearly all are. The first other line is left to field. This loop is what makes the gate
// cheap (BenchmarkGate).
func plainFields(p []byte) (n int) {
	for {
		line := p[n:]
		name := 0
		for name < len(line) && http1.Token[line[name]] {
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

// special reports whether a name of this length and first letter may be one that field handles.
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

// field checks a field line of a head, and records the fields that say where the message ends.
func (g *gate) field(line []byte) *Violation {
	if line[0] == ' ' || line[0] == '\t' {
		return http1.ErrFolded
	}
	n := http1.NameLength(line)
	if n == 0 {
		return http1.ErrFieldName
	}
	name := line[:n]
	switch n {
	case len("forwarded"), len("x-forwarded-for"): // and x-real-ip
		g.forwarded = g.forwarded || http1.IsForwarding(name)
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
		return http1.ErrConnection
	}
	g.lastOne = g.lastOne || http1.HasOption(value, "close")
	return nil
}

func (g *gate) contentLength(value []byte) *Violation {
	if g.length {
		return http1.ErrTwoLengths
	}
	g.length = true
	n, ok := http1.ParseLength(value)
	if g.overlong || !ok {
		return http1.ErrLength
	}
	g.left = n
	return nil
}

func (g *gate) transferEncoding(value []byte) *Violation {
	value = text.TrimBlanks(value)
	if g.chunked || g.overlong || !text.IsName(value, "chunked") {
		return http1.ErrCoding
	}
	g.chunked = true
	return nil
}

// chunkLine checks the size of a chunk and its extensions.
func (g *gate) chunkLine(line []byte) *Violation {
	size, extension, v := http1.ParseChunk(line)
	if v != nil {
		return v
	}
	if g.overlong {
		return http1.ErrChunkLine
	}
	if g.overhead += extension; g.overhead > http1.MaxTrailers {
		return http1.ErrChunkOverhead
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
	if v := http1.CheckTrailer(line); v != nil {
		return v
	}
	if g.overhead += len(line) + len("\r\n"); g.overlong || g.overhead > http1.MaxTrailers {
		return http1.ErrChunkOverhead
	}
	return nil
}
