package server

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/valyala/fasthttp"
)

// job is the working memory of one request: what the policy is asked and the
// buffers it borrows. It is the request's [policy.Fields].
type job struct {
	request policy.Request
	scratch policy.Scratch
	values  denial.Values
	header  *fasthttp.RequestHeader
	fields  [][]byte // of the last lookup
	stripe  uint32   // of the counters
}

// jobs keeps one job for each core that serves, and with it what it touches in
// that core's cache.
var jobs = sync.Pool{New: func() any { return &job{stripe: jobsMade.Add(1)} }}

var jobsMade atomic.Uint32

// release forgets what is borrowed, so that the pool keeps no request alive,
// and returns the job to the pool.
func (j *job) release() {
	j.header = nil
	j.request = policy.Request{}
	jobs.Put(j)
}

// Header implements [policy.Fields].
func (j *job) Header(name string) [][]byte {
	switch name {
	case fasthttp.HeaderUserAgent, fasthttp.HeaderContentType, fasthttp.HeaderContentLength, fasthttp.HeaderHost,
		fasthttp.HeaderConnection, fasthttp.HeaderTransferEncoding, fasthttp.HeaderTrailer, fasthttp.HeaderCookie:
		// Of these the parsed header keeps one only.
		j.fields = appendHeaders(j.fields[:0], j.header.RawHeaders(), name)
		return j.fields
	}
	return j.header.PeekAll(name)
}

// Cookie implements [policy.Fields].
func (j *job) Cookie(name string) [][]byte {
	j.fields = appendCookies(j.fields[:0], j.header.RawHeaders(), name)
	return j.fields
}

// identity assembles the requests of a listener and notices proxies that are
// not set up.
type identity struct {
	clients policy.Identity // a copy
	hint    policy.ProxyHint
	unnamed policy.UnnamedHint
}

// warning is something about a proxy that is worth a line in the log, once.
type warning uint8

const (
	warnNothing warning = iota
	warnUntrusted
	warnUnnamed
)

// read fills the job from a request. It returns why the request is refused, if
// it is, and whether it is time to warn.
func (i *identity) read(e *policy.Engine, j *job, ctx *fasthttp.RequestCtx, forwarded bool) (policy.Refusal, warning) {
	h := &ctx.Request.Header
	j.header = h
	in := policy.Incoming{Peer: peerAddr(ctx), Method: h.Method(), Target: h.RequestURI(), Host: h.Host(), Fields: j}
	from := e.Assemble(&i.clients, &in, &j.scratch, &j.request)
	warn := warnNothing
	switch {
	case i.hint.Note(in.Peer, from.Trusted, forwarded):
		warn = warnUntrusted
	case (from.NoClient || from.NoRequest) && i.unnamed.Note(from.NoClient, from.NoRequest):
		warn = warnUnnamed
	}
	return from.Refused, warn
}

// peerAddr is the address of a TCP peer, invalid for any other: fasthttp's
// RemoteIP makes 0.0.0.0 of those, a key that they would all share.
func peerAddr(ctx *fasthttp.RequestCtx) netip.Addr {
	if c, ok := ctx.Conn().(*conn); ok {
		return c.addr
	}
	return tcpAddr(ctx.RemoteAddr())
}

func tcpAddr(a net.Addr) netip.Addr { return policy.PeerAddr(a) }
