package decide

import (
	"bytes"
	"encoding/binary"

	"github.com/fastlimit/fastlimit/server/internal/text"
	"github.com/valyala/fasthttp"
)

// http1 reports whether the request is HTTP/1.1 or HTTP/1.0. fasthttp takes any
// version, the preface of HTTP/2 included.
func http1(h *fasthttp.RequestHeader) bool {
	switch string(h.Protocol()) {
	case "HTTP/1.1", "HTTP/1.0":
		return true
	}
	return false
}

// validTarget reports whether a target is one that RFC 9112 §3.2 has for the
// method. fasthttp takes more. CONNECT asks for a tunnel, which an empty 200
// would grant; PRI is never a request (RFC 9113 §11.6).
//
// Of the bytes that a URI may not have, controls, blanks, those beyond ASCII
// and '#' are refused. Quotes, braces and the like are let pass: browsers send
// some of them, and no two readers disagree on them.
func validTarget(method, target []byte) bool {
	switch string(method) {
	case fasthttp.MethodConnect, "PRI":
		return false
	}
	if !isASCII(target) || bytes.IndexByte(target, '#') >= 0 {
		return false
	}
	switch {
	case len(target) == 0:
		return false
	case target[0] == '/':
		return true
	case target[0] == '*':
		return len(target) == 1 && string(method) == fasthttp.MethodOptions
	}
	scheme, _, _ := bytes.Cut(target, []byte("://"))
	return text.IsName(scheme, "http") || text.IsName(scheme, "https")
}

// plainTarget reports whether a target is valid, and of a form of which fasthttp's
// parser of URLs finds no fault either: a path without "://".
func plainTarget(method, target []byte) bool {
	return len(target) > 0 && target[0] == '/' && validTarget(method, target) && !bytes.Contains(target, []byte("://"))
}

func isASCII(b []byte) bool {
	const high = 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		if binary.NativeEndian.Uint64(b)&high != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
