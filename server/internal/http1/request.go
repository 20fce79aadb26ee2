package http1

import "bytes"

// Lengths of a body that are not a number of bytes.
const (
	Chunked    = -1 // Transfer-Encoding: chunked
	UntilClose = -2 // only of a response: to the end of the connection
)

// Request is the head of a request. Its slices borrow from the bytes it was parsed from.
type Request struct {
	Method, Target []byte
	Host           []byte // the value of the only Host field; empty only in HTTP/1.0
	Fields         []byte // all field lines, each with its CRLF, without the empty line
	Minor          int    // HTTP/1.Minor: 0 or 1
	Length         int64  // of the body, or Chunked; 0: none
	Close          bool   // the connection ends with this request
	Continue       bool   // Expect: 100-continue; an HTTP/1.0 client cannot wait for it
	Upgrade        bool   // Connection names upgrade, and there is an Upgrade; not in HTTP/1.0
	Forwarded      bool   // it has a forwarding header: see IsForwarding
}

// Parse parses the head at the start of b and returns its length, including an empty line before it. 0 and
// nil mean that more bytes are needed; call it again with these bytes and more, which may have moved. What
// follows the head is not examined. The error, if any, is an [*Error], and does not depend on how many bytes
// were there. r is meaningless unless a head was returned.
func (r *Request) Parse(b []byte) (n int, err error) {
	n, e := r.parse(b)
	if e != nil {
		return 0, e
	}
	return n, nil
}

func (r *Request) parse(b []byte) (n int, e *Error) {
	at := 0
	if len(b) >= 2 && IsCRLF(b) { // RFC 9112 §2.2: at least one is ignored
		at = len("\r\n")
		if len(b) >= 4 && IsCRLF(b[at:]) {
			return 0, ErrBlankLines
		}
	}
	end := ControlByte(b, at)
	if end+1 >= len(b) && (end == len(b) || b[end] == '\r') {
		return 0, nil
	}
	if b[end] != '\r' || b[end+1] != '\n' {
		return 0, lineFault(b[at:], errRequestLine)
	}
	if e = r.requestLine(b[at:end]); e != nil {
		return 0, e
	}
	f := notes{minor: r.Minor}
	first := end + len("\r\n")
	if n, e = f.read(b, first); n == 0 {
		return 0, e
	}
	r.Fields = b[first : n-len("\r\n")]
	return n, r.take(&f)
}

// lineFault says what is wrong with a first line that has a control byte, once all of it is there.
func lineFault(b []byte, other *Error) *Error {
	end := bytes.IndexByte(b, '\n')
	switch {
	case end < 0:
		return nil
	case end == 0 || b[end-1] != '\r':
		return ErrBareLF
	}
	return other
}

// requestLine parses the line, which has no control bytes: RFC 9112 §3.
func (r *Request) requestLine(line []byte) (e *Error) {
	end := len(line) - len(" HTTP/1.1")
	method := bytes.IndexByte(line, ' ')
	if method < 1 || method+1 >= end || line[end] != ' ' || bytes.IndexByte(line[method+1:end], ' ') >= 0 || !allIn(line[:method], &Token) {
		return errRequestLine
	}
	if r.Minor, e = parseVersion(line[end+1:], errRequestLine); e != nil {
		return e
	}
	r.Method, r.Target = line[:method], line[method+1:end]
	if !ValidTarget(r.Method, r.Target) || !validAuthority(r.Target) {
		return errTarget
	}
	return nil
}

// parseVersion returns the minor version of HTTP/1. v has the right length.
func parseVersion(v []byte, malformed *Error) (minor int, e *Error) {
	switch string(v) {
	case "HTTP/1.1":
		return 1, nil
	case "HTTP/1.0":
		return 0, nil
	}
	if string(v[:5]) == "HTTP/" && isDigit(v[5]) && v[6] == '.' && isDigit(v[7]) {
		return 0, errVersion
	}
	return 0, malformed
}

// take fills in the fields' values, and checks them together.
func (r *Request) take(f *notes) *Error {
	if e := f.framing(); e != nil {
		return e
	}
	switch {
	case f.hosts > 1:
		return errTwoHosts
	case len(f.host) == 0 && f.minor > 0:
		return errNoHost
	case !allIn(f.host, &hostByte):
		return errHost
	case f.odd:
		return errExpect
	}
	r.Host, r.Length = f.host, f.length
	if f.chunked {
		r.Length = Chunked
	}
	r.Close, r.Forwarded = f.last(), f.forward
	r.Continue = f.expect && f.minor > 0
	r.Upgrade = f.upgrade && f.switches
	return nil
}
