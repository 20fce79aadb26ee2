package proxy

import (
	"errors"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/decide"
	"github.com/fastlimit/fastlimit/server/internal/http1"
	"github.com/fastlimit/fastlimit/server/internal/latency"
	"github.com/fastlimit/fastlimit/server/internal/logs"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// exchange is one request that is passed on, and its answer. It belongs to the goroutine of the connection.
type exchange struct {
	p     *Proxy
	c     conn.Relay
	who   netip.Addr // the client whose share of the upstream's connections it takes
	req   asked
	head  bool   // it is a HEAD
	shown []byte // our lines for the answer

	hidden []string     // fields of the answer that the client does not get
	owed   *decide.Owed // nil: nothing, or it is reconciled
	line   *decide.Line // nil: nothing is recorded
	logged logged       // for the line
	watch  latency.Watch

	pool   *upstream.Pool  // of up
	queued <-chan struct{} // while it waits for up: closed when the client leaves
	ask    []byte          // what is sent to the upstream
	up     *upstream.Conn  // the upstream that has the request; nil: none
	body   *upload         // sends the rest of the body; nil: ask has the whole request

	buf        []byte // of the answer
	start, end int    // of what was read and not used yet, in buf
	full       bool   // the last read filled buf
	small      []byte // buf before it became big
	big        *[largeBuffer]byte
	resp       http1.Response
	payload    http1.Body
	begun      bool // some of the answer has been sent
	closes     bool // the upstream said in an interim answer that its connection ends

	// For Relay.
	out      []byte
	bodyHead []byte // the part of the body that came with the head
}

func (p *Proxy) exchange(c conn.Relay, a *decide.Admission) *exchange {
	x := p.exchanges.Get().(*exchange)
	x.c, x.req.peer, x.req.secure = c, c.Addr(), c.Secure()
	x.admit(a)
	return x
}

// admit takes what is known of the request from its admission.
func (x *exchange) admit(a *decide.Admission) {
	x.who, x.req.trusted = logs.Subscriber(a.Client), a.Trusted
	x.shown = append(x.shown[:0], a.Shown...)
	x.hidden, x.owed, x.line, x.watch = a.Hidden, a.Owed, a.Line, a.Watch
}

// free returns an exchange to the pool.
func (x *exchange) free() {
	if x.owed != nil { // there was no answer
		x.owed.Drop()
	}
	if x.big != nil {
		x.p.large.Put(x.big)
		x.buf = x.small
	}
	if len(x.buf) != answerBuffer {
		x.buf = make([]byte, answerBuffer)
	}
	*x = exchange{p: x.p, shown: x.shown, ask: x.ask, buf: x.buf, out: x.out, bodyHead: x.bodyHead}
	x.p.exchanges.Put(x)
}

// Forward implements [decide.Forwarder].
func (p *Proxy) Forward(dst []byte, c *conn.Conn, h *conn.Head, a decide.Admission) (out []byte, last bool) {
	x := p.exchange(conn.Relay{Conn: c}, &a)
	defer x.free()
	defer x.rescue(&out, &last)
	x.req.Request = http1.Request{Method: h.Method, Target: h.Target, Host: h.Host, Fields: h.Fields, Minor: 1}
	return x.run(dst, nil)
}

// rescue ends the connection of an exchange that panics: it is unknown what has been sent.
func (x *exchange) rescue(out *[]byte, last *bool) {
	if panicked := recover(); panicked != nil {
		x.p.service.Panicked(panicked)
		x.letGo(upstream.Unknown)
		x.c.Break()
		*out, *last = nil, true
	}
}

// run passes the request on, with the beginning of its body, framed for the upstream, in body. It appends the
// answer to dst, or what is left of it to be sent, and reports whether the connection ends with it.
func (x *exchange) run(dst, body []byte) (out []byte, last bool) {
	out, last = x.passOn(dst, body)
	x.watch.Stop()
	if x.line != nil {
		x.line.Done(x.logged.status, x.logged.bytes, x.logged.server, x.logged.until)
	}
	return out, last
}

// logged is what the access log says of an answer.
type logged struct {
	status int
	bytes  int64  // of its body
	server string // last asked
	asked  time.Time
	until  time.Duration // from asked until its head
}

// noteHead records for the access log that the head of the answer is there.
func (x *exchange) noteHead() {
	if x.line != nil {
		x.logged.status, x.logged.until = x.resp.Status, time.Since(x.logged.asked)
	}
}

func (x *exchange) passOn(dst, body []byte) (out []byte, last bool) {
	var err error
	if dst, err = x.c.Send(dst); err != nil { // answers to earlier requests must not wait for this one
		return x.gone(dst)
	}
	if x.ask, err = x.p.appendRequest(x.ask[:0], &x.req); err != nil {
		return x.fail(dst, failureOf(err))
	}
	x.ask = append(x.ask, body...)
	if f := x.begin(); f.cause != nil {
		return x.fail(dst, f)
	}
	if f := x.awaitHead(); f.cause != nil {
		return x.fail(dst, f)
	}
	x.noteHead()
	x.reconcile()
	if x.resp.Status == 101 {
		x.p.counts.answers[1].Add(1)
		return x.tunnel(dst), true
	}
	return x.answer(dst)
}

// reconcile charges the cost in the head of the answer, before the client can send another request that would
// be decided without it.
func (x *exchange) reconcile() {
	if o := x.owed; o != nil {
		x.owed = nil
		o.Settle(x.resp.Fields)
	}
}

// statusLeft is the status in the access log for a client that did not wait for its answer. It is nginx's.
const statusLeft = 499

// errLeft means that the client has left.
var errLeft = errors.New("the client disconnected")

// maxStale is how many pooled connections may turn out to be closed before a new one is made.
const maxStale = 3

// begin sends the request and reads the first bytes of the answer. It retries if the upstream cannot have
// seen the request: on a pooled connection that had been closed. If it may have, only a request that may be
// repeated is retried, once.
func (x *exchange) begin() failed {
	for stale, again := 0, false; ; {
		up, err := x.lend(again || stale >= maxStale)
		if err != nil {
			return failureOf(err)
		}
		x.up = up
		x.logged.server, x.logged.asked = up.Server(), time.Now()
		x.c.Ask(up)
		if err = x.first(); err == nil {
			up.Answered(time.Since(x.logged.asked))
			return failed{}
		}
		var io *upstream.IOError
		errors.As(err, &io)
		switch {
		case x.body != nil && x.body.started: // some of the body has been sent
			return failureOf(err)
		case io.Stale:
			stale++
		case up.Reused() && !io.Answered && !io.Timeout && !again && x.body == nil && idempotent(x.req.Method):
			again = true
			x.p.counts.retries.Add(1)
		default:
			return failureOf(err)
		}
		if x.letGo(upstream.Unknown) {
			return failed{failClosed, errLeft}
		}
	}
}

// lend gets a connection from the pool, or from the one that has replaced it.
func (x *exchange) lend(fresh bool) (*upstream.Conn, error) {
	defer x.endQueue()
	for {
		x.pool = x.p.behind.Load().pool
		up, err := x.pool.Get(x.who, x, fresh)
		if !errors.Is(err, upstream.ErrClosed) || x.pool == x.p.behind.Load().pool {
			return up, err
		}
	}
}

// BeginQueue implements [upstream.Waiter].
func (x *exchange) BeginQueue() (left <-chan struct{}) {
	if x.queued == nil {
		x.queued = x.c.BeginQueue().Done()
	}
	return x.queued
}

func (x *exchange) endQueue() {
	if x.queued != nil {
		x.queued = nil
		x.c.EndQueue()
	}
}

// first sends the request and reads for the first time.
func (x *exchange) first() (err error) {
	if x.body != nil {
		if _, err = x.up.Write(x.ask); err != nil {
			return err
		}
		x.body.begin(x.up)
		x.end, err = x.up.AwaitHead(x.buf)
		return err
	}
	x.end, err = x.up.Ask(x.ask, x.buf)
	return err
}

// letGo ends the connection to the upstream, and with it the sending of the body. It reports whether the
// client has left. What a client does says nothing about the server: otherwise clients could have it ejected,
// or taken back.
func (x *exchange) letGo(o upstream.Outcome) (left bool) {
	if x.up == nil {
		return false
	}
	if x.body != nil {
		x.body.stop()
	}
	left = x.c.Asked()
	if left || x.body != nil && x.body.err != nil {
		o = upstream.Unknown
	}
	x.pool.Discard(x.up, o)
	x.up = nil
	return left
}

// fail answers a request that could not be passed on.
func (x *exchange) fail(dst []byte, f failed) (out []byte, last bool) {
	left := errors.Is(f.cause, errLeft)
	if left {
		x.letGo(upstream.Unknown)
	} else {
		left = x.letGo(upstream.Failed)
	}
	var client error
	if x.body != nil {
		client = x.body.err
	}
	switch {
	case left:
		return x.gone(dst)
	case client != nil: // the client's fault
		out, x.logged.status = x.p.service.RefuseBody(dst, x.c.Conn, client)
		return out, true
	}
	x.logged.status, x.logged.until = failureAnswers[f.what].status, 0
	if f.what == failConnect || f.what == failBusy {
		x.logged.server = "" // the previous one was not asked
	}
	if !x.head {
		x.logged.bytes = int64(len(x.p.answers[f.what].body))
	}
	last = x.c.LastRequest() || x.unread()
	return x.p.appendFailure(dst, f, x.head, last), last
}

// gone ends the connection of a client that has left.
func (x *exchange) gone(dst []byte) (out []byte, last bool) {
	x.letGo(upstream.Fine)
	x.p.counts.left.Add(1)
	x.logged.status = statusLeft
	x.c.Break()
	return dst[:0], true
}

// unread reports whether the client is still sending the body, so that the connection has to end with the
// answer.
func (x *exchange) unread() bool {
	if x.body == nil || x.body.complete.Load() && !x.body.stopped.Load() {
		return false
	}
	x.c.LeaveUnread()
	return true
}

// idempotent reports whether a request may be sent twice: RFC 9110 §9.2.2.
func idempotent(method []byte) bool {
	switch string(method) {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	return false
}
