package proxy

import (
	"errors"
	"io"

	"github.com/fastlimit/fastlimit/server/internal/http1"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// maxInterim is how many interim answers may come before the final one.
const maxInterim = 16

var (
	errHeadTooLong = errors.New("the head of the answer is too long")
	errInterims    = errors.New("too many answers of status 1xx")
	errInterimBody = errors.New("an answer of status 1xx that claims to have a body")
	errUnasked     = errors.New("the server switched protocols without being asked")
)

// awaitHead reads the head of the answer, and passes interim answers on.
func (x *exchange) awaitHead() failed {
	for interims := 0; ; {
		n, err := x.resp.Parse(x.buf[x.start:x.end], x.head)
		if err != nil {
			return failed{failNonsense, err}
		}
		if n > 0 {
			x.start += n
			switch {
			case x.resp.Status >= 200:
				return failed{}
			case x.resp.Status == 101 && x.req.tunnel && x.resp.Upgrade:
				return failed{}
			case x.resp.Status == 101:
				return failed{failNonsense, errUnasked}
			case interims == maxInterim:
				return failed{failNonsense, errInterims}
			case x.resp.Close && (has(x.resp.Fields, lengthName) || has(x.resp.Fields, codingName)):
				return failed{failNonsense, errInterimBody} // which might be taken for the final answer
			}
			x.closes = x.closes || x.resp.Close
			interims++
			if err := x.interim(); err != nil {
				return failed{failClosed, errLeft}
			}
			continue
		}
		if !x.room(maxHead) {
			return failed{failNonsense, errHeadTooLong}
		}
		n, err = x.up.AwaitHead(x.buf[x.end:])
		if x.end += n; err != nil {
			return failureOf(err)
		}
	}
}

// interim passes an answer of status 1xx on, if the client understands it.
func (x *exchange) interim() error {
	if x.req.Minor == 0 || x.resp.Status == 100 && !x.req.Continue {
		return nil
	}
	x.out = x.hide(appendInterim(x.out[:0], &x.resp), 0)
	_, err := x.c.Send(x.out)
	x.c.Await()
	return err
}

// room makes room to read more into buf, up to most bytes of it.
func (x *exchange) room(most int) bool {
	switch {
	case x.start == x.end:
		x.start, x.end = 0, 0
	case x.start > 0:
		x.start, x.end = 0, copy(x.buf, x.buf[x.start:x.end])
	}
	if x.end < len(x.buf) {
		return true
	}
	if len(x.buf) >= most {
		return false
	}
	x.buf = append(make([]byte, 0, most), x.buf...)[:most]
	return true
}

// answer passes the answer on.
func (x *exchange) answer(dst []byte) (out []byte, last bool) {
	how := deliveryOf(&x.resp, x.head, x.req.Minor)
	last = how == toTheEnd
	last = x.unread() || last
	last = x.c.LastRequest() || last
	out = x.hide(x.p.appendResponse(dst, &x.resp, how, x.shown, last), len(dst))
	x.payload.Begin(x.resp.Length)
	out, err := x.stream(out, how)
	if err == nil || x.begun {
		x.p.counts.answers[x.resp.Status/100].Add(1)
	}
	switch {
	case err == nil:
		x.finish()
		return out, last
	case errors.Is(err, errLeft):
		return x.gone(out)
	case !x.begun:
		what := failureOf(err)
		if _, ok := errors.AsType[*http1.Error](err); ok {
			what.what = failNonsense
		}
		return x.fail(out[:0], what)
	}
	x.p.counts.broken.Add(1)
	x.letGo(upstream.Fine)
	if how == toTheEnd {
		x.c.Break() // else the client would take it for complete
	}
	return out, true
}

// finish frees the upstream for other requests, if it is known to be done with this one.
func (x *exchange) finish() {
	if x.body != nil {
		x.body.finish()
	}
	if cut := x.c.Asked(); cut || x.closes || x.resp.Close || x.start < x.end || x.body != nil && !x.body.sent {
		x.pool.Discard(x.up, upstream.Fine)
	} else {
		x.pool.Put(x.up)
	}
	x.up = nil
}

// direct is the size from which a piece of a body is not copied behind other data to send.
const direct = 4 << 10

// stream passes the body of the answer on. It returns what is left to be sent.
func (x *exchange) stream(out []byte, how delivery) (rest []byte, err error) {
	for {
		for !x.payload.Done() {
			skip, n, err := x.payload.Next(x.buf[x.start:x.end])
			if err != nil {
				return out, err
			}
			data := x.buf[x.start+skip:][:n]
			x.start += skip + n
			if skip+n == 0 {
				break
			}
			if out, err = x.pass(out, data, how); err != nil {
				return out, err
			}
		}
		if x.payload.Done() {
			break
		}
		if out, err = x.send(out); err != nil {
			return out, err
		}
		if err = x.read(); errors.Is(err, io.EOF) && x.resp.Length == http1.UntilClose {
			break
		} else if err != nil {
			return out, err
		}
	}
	if how == inChunks {
		out = appendLastChunk(out, x.payload.Trailers())
	}
	return out, nil
}

// pass appends a piece of a body to out, or sends it.
func (x *exchange) pass(out, data []byte, how delivery) ([]byte, error) {
	x.logged.bytes += int64(len(data))
	switch {
	case len(data) == 0 || how == noBody:
		return out, nil
	case how == inChunks:
		return appendChunk(out, data), nil
	case len(data) < direct || len(out)+len(data) < answerBuffer:
		return append(out, data...), nil
	}
	out, err := x.send(out)
	if err == nil {
		_, err = x.send(data)
	}
	return out, err
}

// send sends what there is of the answer.
func (x *exchange) send(out []byte) ([]byte, error) {
	x.begun = x.begun || len(out) > 0
	rest, err := x.c.Send(out)
	if err != nil {
		err = errLeft
	}
	return rest, err
}

// read reads more of the answer, and takes a larger buffer if there is much of it.
func (x *exchange) read() error {
	if x.full && len(x.buf) == answerBuffer {
		x.big = x.p.large.Get().(*[largeBuffer]byte)
		x.end = copy(x.big[:], x.buf[x.start:x.end])
		x.start = 0
		x.small, x.buf = x.buf, x.big[:]
	}
	x.room(len(x.buf))
	x.c.Await()
	free := x.buf[x.end:]
	n, err := x.up.Read(free)
	x.end += n
	x.full = n == len(free)
	if n > 0 {
		return nil
	}
	return err
}
