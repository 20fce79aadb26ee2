package decide

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/valyala/fasthttp"
)

// requestState is the working memory of one request: what the policy is asked
// and the buffers it borrows. It is the request's [policy.Fields].
type requestState struct {
	request policy.Request
	scratch policy.Scratch
	values  denial.Buffer
	header  *fasthttp.RequestHeader
	fields  [][]byte // of the last lookup
	stripe  uint32   // of the counters
}

// states is a pool because it then has about one state per core, whose memory
// stays in that core's cache.
var states = sync.Pool{New: func() any { return &requestState{stripe: statesMade.Add(1)} }}

var statesMade atomic.Uint32

// release returns the state to the pool, without what it borrowed: the pool would
// keep the request alive.
func (j *requestState) release() {
	j.header = nil
	j.request = policy.Request{}
	states.Put(j)
}

// Header implements [policy.Fields].
func (j *requestState) Header(name string) [][]byte {
	switch name {
	case fasthttp.HeaderUserAgent, fasthttp.HeaderContentType, fasthttp.HeaderContentLength, fasthttp.HeaderHost,
		fasthttp.HeaderConnection, fasthttp.HeaderTransferEncoding, fasthttp.HeaderTrailer, fasthttp.HeaderCookie:
		// Of these fasthttp keeps only one value.
		j.fields = appendHeaders(j.fields[:0], j.header.RawHeaders(), name)
		return j.fields
	}
	return j.header.PeekAll(name)
}

// Cookie implements [policy.Fields].
func (j *requestState) Cookie(name string) [][]byte {
	j.fields = appendCookies(j.fields[:0], j.header.RawHeaders(), name)
	return j.fields
}

// proxyHints count what is wrong with the proxies in front, and warn once.
type proxyHints struct {
	untrusted policy.ProxyHint
	unnamed   policy.UnnamedHint
}

// warning is something about a proxy that is worth a line in the log, once.
type warning uint8

const (
	warnNothing warning = iota
	warnUntrusted
	warnUnnamed
)

// note counts and returns what is wrong with the proxy in front of a request.
// forwarded: a request on its connection had a forwarding header.
func (h *proxyHints) note(peer netip.Addr, from *policy.AssembleResult, forwarded bool) warning {
	switch {
	case h.untrusted.Note(peer, from.Trusted, forwarded):
		return warnUntrusted
	case (from.NoClient || from.NoRequest) && h.unnamed.Note(from.NoClient, from.NoRequest):
		return warnUnnamed
	}
	return warnNothing
}

// assemble fills the state from a request that fasthttp has parsed.
func (j *requestState) assemble(snap *Snapshot, peer netip.Addr, h *fasthttp.RequestHeader) policy.AssembleResult {
	j.header = h
	in := policy.Incoming{Peer: peer, Method: h.Method(), Target: h.RequestURI(), Host: h.Host(), Fields: j}
	return snap.engine.Assemble(&snap.identity, &in, &j.scratch, &j.request)
}
