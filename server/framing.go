package server

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/valyala/fasthttp"
)

// framing is the part of a connection that reads requests. Used by the
// goroutine that serves the connection.
type framing struct {
	gate   gate
	served uint32 // requests handled
}

// Read implements net.Conn. What it returns has passed the gate.
func (c *conn) Read(p []byte) (int, error) { return c.framing.read(c.Conn, p) }

// read reads from the socket, through the gate.
func (f *framing) read(socket io.Reader, p []byte) (int, error) {
	if over, err := f.gate.over(); over {
		return 0, err
	}
	n, err := socket.Read(p)
	return f.checked(p[:n], err)
}

// checked is what the reader gets of a read: as much of p as the gate lets pass.
func (f *framing) checked(p []byte, err error) (int, error) {
	if len(p) == 0 {
		return 0, err
	}
	n := f.gate.pass(p)
	if n == 0 {
		_, err = f.gate.over()
	}
	return n, err
}

// handled notes that the next request is handled. last tells that it must be
// the last of its connection, broken that the gate has seen a violation in it.
func (f *framing) handled() (last bool, broken *violation) {
	f.served++
	if f.served == f.gate.wrong {
		broken = f.gate.problem
	}
	return f.served == f.gate.last, broken
}

// blame returns the violation that made reading a request or its body fail, or
// err if there was none.
func (f *framing) blame(err error) error {
	if w := f.gate.wrong; w > 0 && (w == f.served || w == f.served+1) {
		return f.gate.problem
	}
	return err
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
