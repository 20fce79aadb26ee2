package server

import (
	"context"
	"log/slog"
	"net"
	"runtime/debug"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/policy"
	"github.com/valyala/fasthttp"
)

// traffic is one listener with its answers.
type traffic struct {
	*Server
	listener Listener
	ln       net.Listener // nil until Listen
	http     *fasthttp.Server
	pages    map[*fastlimit.Rule]*page
	conns    conns
	counts   outcomes
}

// handle answers one request. It does not allocate.
func (t *traffic) handle(ctx *fasthttp.RequestCtx) {
	defer t.rescue(ctx)
	header := &ctx.Request.Header
	f := inspect(header)
	switch {
	case !http1(header):
		t.faults.version.refuse(ctx)
	case f.ambiguous:
		t.faults.framing.refuse(ctx)
	case t.config.DecideAPI && string(header.RequestURI()) == decidePath:
		t.decideAPI(ctx)
	default:
		t.decide(ctx, f.forwarded)
	}
	if t.state.Load() == stateDraining {
		ctx.SetConnectionClose()
	}
}

// decide judges the request and answers with the verdict.
func (t *traffic) decide(ctx *fasthttp.RequestCtx, forwarded bool) {
	j := jobs.Get().(*job)
	bad, warn := t.identity.read(j, ctx, forwarded, t.faults)
	if warn {
		t.warnProxy(ctx.RemoteAddr())
	}
	if bad != nil {
		bad.refuse(ctx)
		j.release()
		return
	}
	v := t.engine.Decide(context.Background(), &j.request, &j.scratch)
	switch {
	case v.Decision.Allowed && v.List == policy.ListNone:
		t.counts.add(ctx.ConnID(), outcomeAllow)
	case v.Decision.Allowed:
		t.counts.add(ctx.ConnID(), outcomeListAllow)
	case v.Rule == nil:
		t.counts.add(ctx.ConnID(), outcomeListDeny)
		t.listed.write(&ctx.Response)
	default:
		t.counts.add(ctx.ConnID(), outcomeDeny)
		p := t.pages[v.Rule]
		p.write(&ctx.Response, &v.Decision, &j.values)
		if t.denials.take() {
			t.logDenial(p.rule, &j.request, &v)
		}
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
	t.faults.internal.refuse(ctx)
	if t.panics.take() {
		t.log.Error("panic in a request", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	}
}

// parseError answers what fasthttp could not parse.
func (t *traffic) parseError(ctx *fasthttp.RequestCtx, err error) {
	ctx.Response.Reset()
	t.faults.of(err).refuse(ctx)
}
