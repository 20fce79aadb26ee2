package server

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// framed is what the raw header block tells.
type framed struct {
	ambiguous bool // two readers could disagree on where the request ends
	forwarded bool // a proxy says that it forwards
}

// inspect reads the raw header block, which fasthttp's parser has accepted.
// fasthttp lets Transfer-Encoding win over Content-Length, drops "identity"
// without a trace and joins folded lines, each of which another reader may see
// otherwise (RFC 9112 §5.2, §6.1, §6.3). Nothing of this is left in the parsed
// header, so the block is walked again: about 8 ns a line (BenchmarkInspect).
func inspect(h *fasthttp.RequestHeader) (f framed) {
	var length, encoding bool
	for raw := h.RawHeaders(); len(raw) > 0; {
		end := bytes.IndexByte(raw, '\n') + 1
		if end == 0 {
			end = len(raw)
		}
		switch raw[0] | 0x20 {
		case ' ', '\t' | 0x20: // a tab is 0x29 then, which starts no header name
			f.ambiguous = true
		case 'c':
			length = length || named(raw, "content-length")
		case 't':
			encoding = encoding || named(raw, "transfer-encoding")
		case 'x':
			f.forwarded = f.forwarded || named(raw, "x-forwarded-for") || named(raw, "x-real-ip")
		case 'f':
			f.forwarded = f.forwarded || named(raw, "forwarded")
		}
		raw = raw[end:]
	}
	const chunked = -1 // of RequestHeader.ContentLength
	if encoding && (length || h.ContentLength() != chunked) {
		f.ambiguous = true
	}
	return f
}

// named reports whether the header line has the given name, in lower case. It
// minds neither case nor blanks before the colon.
func named(line []byte, name string) bool {
	if len(line) <= len(name) {
		return false
	}
	for i := range len(name) {
		if line[i]|0x20 != name[i] {
			return false
		}
	}
	switch line[len(name)] {
	case ':', ' ', '\t':
		return true
	}
	return false
}

// http1 reports whether the request is HTTP/1.1 or HTTP/1.0. fasthttp takes any
// version, the preface of HTTP/2 included.
func http1(h *fasthttp.RequestHeader) bool {
	switch string(h.Protocol()) {
	case "HTTP/1.1", "HTTP/1.0":
		return true
	}
	return false
}
