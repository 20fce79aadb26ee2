package server

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/fastlimit/fastlimit/policy"
	"github.com/valyala/fasthttp"
)

// traffic is one listener with its answers.
//
// What every request reads stands together, copies where need be: between two
// requests the kernel has taken the caches, and each line or page that is
// touched afterwards costs some 60 ns.
type traffic struct {
	engine   policy.Engine // a copy
	identity identity
	batches  bool    // POST /v1/decide is served
	pages    []*page // by index of their rule
	conns    *conns  // of all listeners

	*Server
	listener    Listener
	ln          *retryListener   // nil until Listen
	http, large *fasthttp.Server // for heads up to smallHead, and for longer ones
	counts      outcomes
	accepted    chan struct{} // closed when no more connections are accepted
}

// handle answers one request. It does not allocate.
func (t *traffic) handle(ctx *fasthttp.RequestCtx) {
	// fasthttp has read the clock right before it called the handler.
	t.answer(ctx, ctx.Time())
}

// answer answers a request for which the clock was read at the given time.
func (t *traffic) answer(ctx *fasthttp.RequestCtx, read time.Time) {
	defer t.rescue(ctx)
	c, ok := ctx.Conn().(*conn)
	forwarded, broken := false, (*violation)(nil)
	if ok {
		c.enter(writing)
		broken = c.nextRequest()
		forwarded = c.gate.forwarded
	}
	header := &ctx.Request.Header
	switch {
	case !http1(header):
		t.refuse(ctx, &t.faults.version, nil)
	case broken != nil:
		t.refuse(ctx, t.faults.of(broken), broken)
	case !validTarget(header.Method(), header.RequestURI()):
		t.refuse(ctx, &t.faults.target, nil)
	case t.batches && string(header.RequestURI()) == decidePath:
		t.decideAPI(ctx)
	default:
		if bad, err := t.discard(ctx); bad != nil {
			t.refuse(ctx, bad, err)
			break
		}
		if ctx.Request.IsBodyStream() {
			read = time.Now() // reading it may have taken long
		}
		if t.decide(ctx, forwarded, read) && ok {
			t.conns.denied(ctx, c)
		}
	}
	if ok && (c.leave.Load() || c.isLast()) {
		ctx.SetConnectionClose()
	}
}

// decide judges the request and answers with the verdict. It reports whether the
// request was denied.
func (t *traffic) decide(ctx *fasthttp.RequestCtx, forwarded bool, read time.Time) (denied bool) {
	j := jobs.Get().(*job)
	refused, warn := t.identity.read(&t.engine, j, ctx, forwarded)
	if warn != warnNothing {
		t.warnProxy(warn, peerAddr(ctx))
	}
	if refused != policy.NotRefused {
		t.refuse(ctx, t.faults.refused(refused), nil)
		j.release()
		return false
	}
	if read.IsZero() { // it was called by somebody else
		read = time.Now()
	}
	v := t.engine.DecideRead(context.Background(), &j.request, &j.scratch, read)
	switch {
	case v.Decision.Allowed && v.List == policy.ListNone:
		t.counts.add(j.stripe, outcomeAllow)
	case v.Decision.Allowed:
		t.counts.add(j.stripe, outcomeListAllow)
	case v.Rule == nil:
		t.counts.add(j.stripe, outcomeListDeny)
		t.listed.write(&ctx.Response)
		t.denied(j, nil, &v)
	default:
		t.counts.add(j.stripe, outcomeDeny)
		p := t.pages[v.Rule.Index()]
		p.write(&ctx.Response, &v.Decision, &j.values)
		t.denied(j, p, &v)
	}
	j.release()
	return !v.Decision.Allowed
}

// rescue keeps a panic in one request from ending the process, which fasthttp
// would let it do. The connection is closed: its state is unknown.
func (t *traffic) rescue(ctx *fasthttp.RequestCtx) {
	p := recover()
	if p == nil {
		return
	}
	ctx.Response.Reset()
	t.refuse(ctx, &t.faults.internal, nil)
	if t.panics.take() {
		t.log.Error("panic in a request", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	}
}

// parseError answers what fasthttp could not parse.
func (t *traffic) parseError(ctx *fasthttp.RequestCtx, err error) {
	if c, ok := ctx.Conn().(*conn); ok {
		if c.tooLong(err) || c.closed {
			return // the larger reader answers, or nobody can
		}
		if v := c.violated(); v != nil {
			err = v
		}
	}
	ctx.Response.Reset()
	t.refuse(ctx, t.faults.of(err), err)
}

// refuse answers with the fault, notes it for the log and closes the
// connection.
func (t *traffic) refuse(ctx *fasthttp.RequestCtx, f *fault, err error) {
	f.refuse(ctx)
	if f != &t.faults.internal { // which has a line of its own
		t.bad.note(f, peerAddr(ctx), err)
	}
}
