package http1

import "bytes"

// Response is the head of a response. Its slices borrow from the bytes it was parsed from.
type Response struct {
	Status  int    // 100 to 599
	Reason  []byte // may be empty
	Fields  []byte // all field lines, each with its CRLF, without the empty line
	Minor   int    // HTTP/1.Minor: 0 or 1
	Length  int64  // of the body, Chunked or UntilClose; 0: none
	Close   bool   // the connection ends with this response, or cannot be trusted beyond it
	Upgrade bool   // Connection names upgrade, and there is an Upgrade; not in HTTP/1.0
	Date    bool   // it has a Date
}

// Parse is like [Request.Parse]. head: it answers a HEAD. Such a response, and one with a status of 1xx, 204
// or 304, has no body, whatever its fields say. If a 1xx or 204 announces one anyway, which it must not (RFC
// 9110 §8.6), some of what follows may be that body: Close is set.
func (r *Response) Parse(b []byte, head bool) (n int, err error) {
	n, e := r.parse(b, head)
	if e != nil {
		return 0, e
	}
	return n, nil
}

func (r *Response) parse(b []byte, head bool) (n int, e *Error) {
	const http = "HTTP/"
	if k := min(len(b), len(http)); string(b[:k]) != http[:k] {
		return 0, errStatusLine // another protocol may never end a line
	}
	end := textEnd(b, 0)
	if end+1 >= len(b) && (end == len(b) || b[end] == '\r') {
		return 0, nil
	}
	if b[end] != '\r' || b[end+1] != '\n' {
		return 0, lineFault(b, errStatusLine)
	}
	if e = r.statusLine(b[:end]); e != nil {
		return 0, e
	}
	f := notes{minor: r.Minor}
	first := end + len("\r\n")
	if n, e = f.read(b, first); n == 0 {
		return 0, e
	}
	r.Fields = b[first : n-len("\r\n")]
	return n, r.take(&f, head)
}

// statusLine parses the line, which has no control bytes except tabs: RFC 9112 §4. Many servers omit the
// blank before an empty reason.
func (r *Response) statusLine(line []byte) (e *Error) {
	const version, status = len("HTTP/1.1"), len("HTTP/1.1 200")
	if len(line) < status || line[version] != ' ' || len(line) > status && line[status] != ' ' {
		return errStatusLine
	}
	if r.Minor, e = parseVersion(line[:version], errStatusLine); e != nil {
		return e
	}
	r.Status = 0
	for _, c := range line[version+1 : status] {
		if !isDigit(c) {
			return errStatusLine
		}
		r.Status = 10*r.Status + int(c-'0')
	}
	if r.Status < 100 || r.Status > 599 {
		return errStatusLine
	}
	r.Reason = bytes.TrimPrefix(line[status:], []byte{' '})
	return nil
}

// take fills in the fields' values, and checks them together.
func (r *Response) take(f *notes, head bool) *Error {
	if e := f.framing(); e != nil {
		return e
	}
	r.Close, r.Date = f.last(), f.date
	r.Upgrade = f.upgrade && f.switches
	never := r.Status < 200 || r.Status == 204
	switch {
	case never || head || r.Status == 304:
		r.Length = 0
		r.Close = r.Close || never && (f.chunked || f.length > 0)
	case f.chunked:
		r.Length = Chunked
	case f.sized:
		r.Length = f.length
	default:
		r.Length, r.Close = UntilClose, true
	}
	return nil
}
