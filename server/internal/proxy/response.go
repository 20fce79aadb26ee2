package proxy

import (
	"bytes"
	"strconv"

	"github.com/fastlimit/fastlimit/server/internal/http1"
	"github.com/fastlimit/fastlimit/server/internal/text"
)

// delivery is how the body of an answer is sent to the client.
type delivery uint8

const (
	noBody   delivery = iota
	asIs              // as many bytes as the head says
	inChunks          // of unknown length
	toTheEnd          // until the connection ends: to HTTP/1.0
)

// deliveryOf returns how to send the body of an answer to a client of HTTP/1.minor.
func deliveryOf(r *http1.Response, head bool, minor int) delivery {
	switch {
	case head || r.Status < 200 || r.Status == 204 || r.Status == 304:
		return noBody
	case r.Length >= 0:
		return asIs
	case minor > 0:
		return inChunks
	}
	return toTheEnd
}

// appendResponse appends the head that the client gets. shown are our field lines; the upstream's fields of
// the same names are dropped.
func (p *Proxy) appendResponse(dst []byte, r *http1.Response, how delivery, shown []byte, last bool) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(r.Status), 10)
	dst = append(dst, ' ')
	dst = append(dst, r.Reason...)
	dst = append(dst, "\r\n"...)
	switches := r.Status == 101
	first, strip := len(dst), false
	for lines := (http1.Lines{Rest: r.Fields}); ; {
		name, value, line, ok := lines.Next()
		if !ok {
			break
		}
		switch kindOf(name) {
		case endToEnd, host, expect, via:
			if len(shown) > 0 && has(shown, name) {
				continue
			}
		case connection:
			strip = strip || namesOthers(value)
			continue
		case upgrade:
			if !switches {
				continue
			}
		case framing: // one Content-Length, or the answer would have been refused
			if name[0]|0x20 != 'c' || how != asIs && (r.Status < 200 || r.Status == 204 || how != noBody) {
				continue
			}
		default:
			continue
		}
		dst = append(dst, line...)
	}
	if strip {
		dst = dropNamed(dst, first, r.Fields)
	}
	if !r.Date && !switches {
		dst = append(dst, p.service.Date()...)
	}
	dst = append(dst, shown...)
	switch {
	case switches:
		dst = append(dst, "Connection: Upgrade\r\n"...)
	case last:
		dst = append(dst, "Connection: close\r\n"...)
	}
	if how == inChunks {
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// has reports whether field lines have that name.
func has(fields, name []byte) bool {
	for lines := (http1.Lines{Rest: fields}); ; {
		n, _, _, ok := lines.Next()
		if !ok || bytes.EqualFold(n, name) {
			return ok
		}
	}
}

// hide removes the fields that clients do not get from a head that is out[from:].
func (x *exchange) hide(out []byte, from int) []byte {
	if len(x.hidden) == 0 {
		return out
	}
	kept := from + bytes.IndexByte(out[from:], '\n') + 1
	for lines := (http1.Lines{Rest: out[kept:]}); ; {
		name, _, line, ok := lines.Next()
		if !ok {
			return append(out[:kept], "\r\n"...)
		}
		if !x.hides(name) {
			kept += copy(out[kept:], line)
		}
	}
}

func (x *exchange) hides(name []byte) bool {
	for _, hidden := range x.hidden {
		if text.IsName(name, hidden) {
			return true
		}
	}
	return false
}

// appendInterim appends an interim answer.
func appendInterim(dst []byte, r *http1.Response) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(r.Status), 10)
	dst = append(dst, ' ')
	dst = append(dst, r.Reason...)
	dst = append(dst, "\r\n"...)
	first := len(dst)
	for lines := (http1.Lines{Rest: r.Fields}); ; {
		name, _, line, ok := lines.Next()
		if !ok {
			break
		}
		if k := kindOf(name); k == endToEnd || k == via {
			dst = append(dst, line...)
		}
	}
	return append(dropNamed(dst, first, r.Fields), "\r\n"...)
}

// appendChunk appends a chunk, which is not empty.
func appendChunk(dst, data []byte) []byte {
	dst = strconv.AppendUint(dst, uint64(len(data)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, data...)
	return append(dst, "\r\n"...)
}

// appendLastChunk appends the end of a body in chunks.
func appendLastChunk(dst, trailers []byte) []byte {
	dst = append(dst, "0\r\n"...)
	dst = append(dst, trailers...)
	return append(dst, "\r\n"...)
}
