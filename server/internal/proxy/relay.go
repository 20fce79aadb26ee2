package proxy

import (
	"bytes"
	"errors"
	"io"

	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/decide"
	"github.com/fastlimit/fastlimit/server/internal/http1"
	"github.com/fastlimit/fastlimit/server/internal/text"
)

// reader reads the head of a request. It holds the bytes that its slices borrow.
type reader struct {
	buf        []byte
	start, end int // of what was read and is not used yet
	req        http1.Request
	endLarge   func() // call when buf, which is larger than the pool's, is released; nil: it is not larger
}

// Relay implements [decide.Forwarder]: it serves one request, and gives back what came after it.
func (p *Proxy) Relay(cn *conn.Conn, listener int) (more bool) {
	c := conn.Relay{Conn: cn}
	r := p.readers.Get().(*reader)
	defer p.putReader(r)
	err := r.read(c)
	if errors.Is(err, errNothing) {
		return false
	}
	a := decide.Admission{}
	x := p.exchange(c, &a)
	defer x.free()
	if err != nil {
		_, _ = c.Send(p.service.Refuse(x.out[:0], cn, err))
		return false
	}
	last := p.serve(x, r, listener)
	if last {
		return false
	}
	if r.start < r.end {
		c.Unread(bytes.Clone(r.buf[r.start:r.end]))
	}
	c.EndAnswer()
	return true
}

func (p *Proxy) putReader(r *reader) {
	if r.endLarge != nil {
		r.endLarge()
		r.buf = make([]byte, readBuffer)
	}
	*r = reader{buf: r.buf}
	p.readers.Put(r)
}

// errNothing means that the connection ends, and no request waits for an answer.
var errNothing = errors.New("no request has begun")

// errHeadSize means that a head is too long.
var errHeadSize = &decide.HeadTooLong{}

// read reads a head.
func (r *reader) read(c conn.Relay) error {
	for {
		n, err := c.Fill(r.buf[r.end:])
		if r.end += n; n == 0 {
			switch {
			case r.end == 0:
				return errNothing
			case errors.Is(err, io.EOF):
				return io.ErrUnexpectedEOF
			}
			return err
		}
		n, err = r.req.Parse(r.buf[:r.end])
		if n > 0 || err != nil {
			r.start = n
			return err
		}
		if r.end < len(r.buf) {
			continue
		}
		if r.endLarge != nil || c.HeadBytes() <= len(r.buf) {
			return errHeadSize
		}
		r.buf = append(make([]byte, 0, c.HeadBytes()), r.buf...)[:c.HeadBytes()]
		r.endLarge = c.BeginLarge()
	}
}

// serve decides on the request that was read, and passes it on if it is admitted. It reports whether the
// connection ends with it.
func (p *Proxy) serve(x *exchange, r *reader, listener int) (last bool) {
	defer x.rescue(&x.out, &last)
	c, req := x.c, &r.req
	x.head = string(req.Method) == "HEAD"
	c.Note(req.Close || req.Minor == 0, req.Forwarded)
	var a decide.Admission
	a.LastIfDenied = !c.IsStream() && !p.drains(req)
	out, last := p.service.Admit(x.out[:0], c.Conn, &conn.Head{Method: req.Method, Target: req.Target, Host: req.Host, Fields: req.Fields}, listener, &a)
	if !a.Admitted {
		if x.head {
			out = withoutBody(out, 0)
		}
		x.out = out
		if last && req.Length != 0 { // the rest may be on its way
			c.LeaveUnread()
		}
		if _, err := c.Send(out); err != nil || last || c.IsStream() { // a stream's body need not be read
			return true
		}
		return !r.drain(c)
	}
	x.admit(&a)
	x.req.Request = *req
	x.req.tunnel = req.Upgrade && req.Length == 0 && req.Minor > 0 && !isH2C(req.Fields)
	body, err := x.takeBody(r)
	if err != nil {
		bad, status := p.service.RefuseBody(out[:0], c.Conn, err)
		if x.line != nil {
			x.line.Done(status, 0, "", 0)
		}
		_, _ = c.Send(bad)
		return true
	}
	if x.req.tunnel { // the rest is in the new protocol, or the next request
		c.Unread(bytes.Clone(r.buf[r.start:r.end]))
		r.start, r.end = 0, 0
	}
	x.out, last = x.run(out[:0], body)
	if u := x.body; u != nil {
		x.body = nil
		r.takeBack(u)
		p.uploads.Put(u.buf)
	}
	if _, err := c.Send(x.out); err != nil {
		return true
	}
	return last
}

// drains reports whether the body of a request that is not admitted is worth reading, to keep the connection.
func (p *Proxy) drains(req *http1.Request) bool {
	return req.Length == 0 || req.Length > 0 && req.Length <= int64(p.service.BodyBytes()) && !req.Continue
}

// drain reads the body of a request that was not admitted, and drops it.
func (r *reader) drain(c conn.Relay) bool {
	left := r.req.Length - int64(r.end-r.start)
	if left <= 0 {
		r.start += int(r.req.Length)
		return true
	}
	c.BeginBody()
	defer c.EndBody()
	r.start, r.end = 0, 0
	for left > 0 {
		n, err := c.Fill(r.buf[:min(int64(len(r.buf)), left)])
		if left -= int64(n); n == 0 && err != nil {
			return false
		}
	}
	return true
}

// takeBody takes the part of the body that came with the head, framed again. If that is not all, x.body sends
// the rest.
func (x *exchange) takeBody(r *reader) (begin []byte, err error) {
	length := r.req.Length
	if length == 0 {
		return nil, nil
	}
	var b http1.Body
	b.Begin(length)
	chunked := length == http1.Chunked
	begin = x.bodyHead[:0]
	for !b.Done() {
		skip, n, err := b.Next(r.buf[r.start:r.end])
		if err != nil {
			return nil, err
		}
		if skip+n == 0 {
			break
		}
		data := r.buf[r.start+skip:][:n]
		r.start += skip + n
		if n > 0 && chunked {
			begin = appendChunk(begin, data)
		} else {
			begin = append(begin, data...)
		}
	}
	x.bodyHead = begin
	guard := &x.p.behind.Load().guard
	if b.Done() {
		if chunked {
			begin = appendLastChunk(begin, guard.appendTrailers(nil, b.Trailers()))
		}
		return begin, nil
	}
	u := &upload{c: x.c, guard: guard, body: b, chunked: chunked, buf: x.p.uploads.Get().(*[uploadBuffer]byte), finishTime: x.p.finishTime}
	u.end = copy(u.buf[:], r.buf[r.start:r.end]) // at most part of a line
	r.start = r.end
	x.body = u
	return begin, nil
}

// takeBack takes what an upload has read beyond its body: the next request.
func (r *reader) takeBack(u *upload) {
	rest := u.buf[u.start:u.end]
	if len(rest) > len(r.buf) {
		r.buf = make([]byte, len(rest))
	}
	r.start, r.end = 0, copy(r.buf, rest)
}

// isH2C reports whether a request asks to switch to HTTP/2, which would bypass the limits for everything that
// follows.
func isH2C(fields []byte) bool {
	for lines := (http1.Lines{Rest: fields}); ; {
		name, value, _, ok := lines.Next()
		if !ok {
			return false
		}
		if kindOf(name) != upgrade {
			continue
		}
		for protocol := range options(value) {
			if text.IsName(protocol, "h2c") || text.IsName(protocol, "h2") {
				return true
			}
		}
	}
}
