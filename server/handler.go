package server

import (
	"context"
	"log/slog"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/internal/policy"
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
	batches  bool // POST /v1/decide is served
	draining atomic.Bool
	pages    []*page // by index of their rule
	conns    conns

	*Server
	listener Listener
	ln       net.Listener // nil until Listen
	http     *fasthttp.Server
	counts   outcomes
}

// handle answers one request. It does not allocate.
func (t *traffic) handle(ctx *fasthttp.RequestCtx) {
	defer t.rescue(ctx)
	var last, forwarded bool
	var broken *violation
	if c, ok := ctx.Conn().(*conn); ok {
		c.enter(writing)
		last, broken = c.handled()
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
		t.decide(ctx, forwarded)
	}
	if last || t.draining.Load() {
		ctx.SetConnectionClose()
	}
}

// decide judges the request and answers with the verdict.
func (t *traffic) decide(ctx *fasthttp.RequestCtx, forwarded bool) {
	j := jobs.Get().(*job)
	bad, warn := t.identity.read(j, ctx, forwarded, t.faults)
	if warn != warnNothing {
		t.warnProxy(warn, peerAddr(ctx))
	}
	if bad != nil {
		t.refuse(ctx, bad, nil)
		j.release()
		return
	}
	// fasthttp has read the clock right before it called the handler.
	read := ctx.Time()
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
		err = c.blame(err)
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
