package server

import (
	"bytes"
	"encoding/binary"

	"github.com/valyala/fasthttp"
)

// framing is the part of a connection that reads requests. Used by the
// goroutine that serves the connection.
type framing struct {
	gate   gate
	served uint32 // requests handled
}

// filter lets through what was read from the socket, as far as the gate lets
// it pass.
func (f *framing) filter(p []byte, n int, err error) (int, error) {
	if n == 0 {
		return 0, err
	}
	if n = f.gate.pass(p[:n]); n == 0 {
		_, err = f.gate.over()
	}
	return n, err
}

// nextRequest notes that the next request is handled. It returns the violation
// that the gate has seen in it so far, nil if there is none.
func (f *framing) nextRequest() *violation {
	f.served++
	return f.broken()
}

// broken is the violation in the request that is being handled, nil if there is
// none: in its head or in what was read of its body.
func (f *framing) broken() *violation {
	if f.served == f.gate.wrong {
		return f.gate.problem
	}
	return nil
}

// complete reports whether the request that is being handled has been read to
// its end. fasthttp takes the end of the connection for the end of a trailer.
func (f *framing) complete() bool {
	g := &f.gate
	return g.heads > f.served || g.state == gateRequestLine || g.state == gateClosed || g.wrong > f.served
}

// isLast reports whether the request that is being handled must be the last of
// its connection. It is known once the body has been read.
func (f *framing) isLast() bool { return f.served == f.gate.last }

// violated is the violation in the request that is being parsed, nil if it has
// none.
func (f *framing) violated() *violation {
	if f.served+1 == f.gate.wrong {
		return f.gate.problem
	}
	return nil
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
	return len(scheme) == len("http") && isName(scheme, "http") || len(scheme) == len("https") && isName(scheme, "https")
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
