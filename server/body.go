package server

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// discard reads the body of a request and drops it, so that the next request on
// the connection is found. Beyond Connections.BodyBytes it stops: the connection then
// ends with the answer, and what was not read is nobody's request. It returns
// the fault for which the request is refused, or nil, and what was wrong.
func (t *traffic) discard(ctx *fasthttp.RequestCtx) (bad *fault, cause error) {
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return nil, nil
	}
	c, _ := ctx.Conn().(*conn)
	length := ctx.Request.Header.ContentLength()
	if length == 0 {
		return nil, nil
	}
	if c != nil {
		c.head = nil
		c.enter(body)
		defer c.enter(writing)
		if c.large.active { // its reader may take bytes of the next request too
			ctx.SetConnectionClose()
		}
	}
	if length > t.config.Connections.BodyBytes {
		leaveUnread(ctx)
		return nil, nil
	}
	buf := discardBuffers.Get().(*[discardBytes]byte)
	defer discardBuffers.Put(buf)
	for total := 0; ; {
		n, err := stream.Read(buf[:])
		total += n
		switch {
		case errors.Is(err, io.EOF) && (length > total || c != nil && !c.complete()):
			return t.brokenBody(c, err)
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return t.brokenBody(c, err)
		case total > t.config.Connections.BodyBytes: // in chunks
			leaveUnread(ctx)
			return nil, nil
		}
	}
}

// brokenBody tells which fault an error while reading a body is. The gate's word
// on it comes first: the parser has seen only what the gate let pass.
func (t *traffic) brokenBody(c *conn, err error) (*fault, error) {
	if c != nil {
		if v := c.broken(); v != nil {
			err = v
		}
	}
	return t.faults.of(err), err
}

// discardBytes is what a stalled body holds beside the reader's buffer.
const discardBytes = 512

var discardBuffers = sync.Pool{New: func() any { return new([discardBytes]byte) }}

// leaveUnread ends the connection with the answer, after a moment in which the
// client may go on sending.
func leaveUnread(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	if c, ok := ctx.Conn().(*conn); ok {
		c.unread = true
	}
}

// wholeBody reads a body that is needed. Of one that cannot be had it returns
// the fault and what was wrong.
func (t *traffic) wholeBody(ctx *fasthttp.RequestCtx, most int) (content []byte, bad *fault, cause error) {
	stream := ctx.RequestBodyStream()
	length := ctx.Request.Header.ContentLength()
	switch {
	case stream == nil:
		return nil, nil, nil
	case length > most:
		return nil, &t.faults.bodySize, nil
	}
	c, ok := ctx.Conn().(*conn)
	if ok {
		c.enter(body)
		defer c.enter(writing)
	}
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(stream, int64(most)+1))
	switch {
	case err != nil:
		bad, cause = t.brokenBody(c, err)
		return nil, bad, cause
	case int(n) < length, ok && int(n) <= most && !c.complete():
		bad, cause = t.brokenBody(c, io.ErrUnexpectedEOF)
		return nil, bad, cause
	case int(n) > most:
		return nil, &t.faults.bodySize, nil
	}
	return b.Bytes(), nil, nil
}

// expect answers a request whose client waits to be asked for the body: nobody
// needs that, so it is not asked for.
func (t *traffic) expect(ctx *fasthttp.RequestCtx) int {
	if t.batches && string(ctx.Request.Header.RequestURI()) == decidePath {
		return fasthttp.StatusContinue
	}
	leaveUnread(ctx)
	t.answer(ctx, time.Now())
	return ctx.Response.StatusCode()
}
