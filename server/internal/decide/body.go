package decide

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/valyala/fasthttp"
)

// discard reads the body of a request and drops it, so that the next request on the connection is found.
// Beyond maxBody it stops: the connection then ends with the answer, and the rest is no request. On a stream
// it reads nothing, or streams whose bodies never end would be held, and not charged. It returns why the
// request is refused, or nil, and what was wrong.
func (s *Service) discard(ctx *fasthttp.RequestCtx) (bad *badRequest, cause error) {
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return nil, nil
	}
	length := ctx.Request.Header.ContentLength()
	if length == 0 {
		return nil, nil
	}
	if c := conn.Of(ctx); length > s.maxBody || c != nil && c.IsStream() {
		conn.LeaveUnread(ctx)
		return nil, nil
	}
	c := beginBody(ctx)
	if c != nil {
		defer c.EndBody()
	}
	buf := discardBuffers.Get().(*[discardBytes]byte)
	defer discardBuffers.Put(buf)
	for total := 0; ; {
		n, err := stream.Read(buf[:])
		total += n
		switch {
		case errors.Is(err, io.EOF) && (length > total || c != nil && !c.BodyComplete()):
			return s.brokenBody(c, err)
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return s.brokenBody(c, err)
		case total > s.maxBody: // chunked
			conn.LeaveUnread(ctx)
			return nil, nil
		}
	}
}

// beginBody records on a request's connection, if it has one, that its body is being read.
func beginBody(ctx *fasthttp.RequestCtx) *conn.Conn {
	c := conn.Of(ctx)
	if c != nil && c.BeginBody() {
		ctx.SetConnectionClose()
	}
	return c
}

// brokenBody returns the kind of bad request for an error while reading a body. A violation that the gate has
// found takes precedence: the parser has seen only what the gate let through.
func (s *Service) brokenBody(c *conn.Conn, err error) (*badRequest, error) {
	if c != nil {
		if v := c.Violation(); v != nil {
			err = v
		}
	}
	return s.bad.of(err), err
}

// discardBytes is what a stalled upload holds in addition to the reader's buffer.
const discardBytes = 512

var discardBuffers = sync.Pool{New: func() any { return new([discardBytes]byte) }}

// wholeBody reads a body of at most the given bytes. If it cannot, it returns the
// kind of bad request and the cause.
func (s *Service) wholeBody(ctx *fasthttp.RequestCtx, most int) (content []byte, bad *badRequest, cause error) {
	stream := ctx.RequestBodyStream()
	length := ctx.Request.Header.ContentLength()
	switch {
	case stream == nil:
		return nil, nil, nil
	case length > most:
		return nil, &s.bad.bodySize, nil
	}
	c := beginBody(ctx)
	if c != nil {
		defer c.EndBody()
	}
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(stream, int64(most)+1))
	switch {
	case err != nil:
		bad, cause = s.brokenBody(c, err)
		return nil, bad, cause
	case int(n) < length, c != nil && int(n) <= most && !c.BodyComplete():
		bad, cause = s.brokenBody(c, io.ErrUnexpectedEOF)
		return nil, bad, cause
	case int(n) > most:
		return nil, &s.bad.bodySize, nil
	}
	return b.Bytes(), nil, nil
}

// expect answers a request with Expect: 100-continue. Only a batch needs the body; any other request is
// decided without it.
func (s *Service) expect(ctx *fasthttp.RequestCtx, listener int) int {
	snap := s.current.Load()
	if snap.batches && string(ctx.Request.Header.RequestURI()) == BatchPath {
		return fasthttp.StatusContinue
	}
	conn.LeaveUnread(ctx)
	s.answer(ctx, snap, listener, time.Now())
	return ctx.Response.StatusCode()
}
