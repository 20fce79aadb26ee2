package decide

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/valyala/fasthttp"
)

// requestState is the working memory of one request: what the policy is asked
// and the buffers it borrows. It is the request's [policy.Fields].
type requestState struct {
	request policy.Request
	scratch policy.Scratch
	values  denial.Values
	header  *fasthttp.RequestHeader
	stripe  uint32 // of the counters
}

// states keeps one for each core that serves, and with it what it touches in
// that core's cache.
var states = sync.Pool{New: func() any { return &requestState{stripe: statesMade.Add(1)} }}

var statesMade atomic.Uint32

// release forgets what is borrowed, so that the pool keeps no request alive,
// and returns the state to the pool.
func (j *requestState) release() {
	j.header = nil
	j.request = policy.Request{}
	states.Put(j)
}

// Header implements [policy.Fields].
func (j *requestState) Header(name string) ([]byte, bool) {
	v := j.header.Peek(name)
	return v, v != nil
}

// Cookie implements [policy.Fields].
func (j *requestState) Cookie(name string) ([]byte, bool) {
	v, n := cookie(j.header, name)
	return v, n > 0
}

// identity names the client of a connection and the request it asks about.
type identity struct {
	clients policy.Identity // a copy

	// The header that names the client, and those that name the original
	// request, empty where there is none.
	client, method, uri, hostname string
	keys                          []policy.KeyPart // the headers and cookies of keys
}

func (i *identity) init(id *policy.Identity, keys []policy.KeyPart) {
	i.clients, i.client, i.keys = *id, id.Header(), lowered(keys)
	i.method, i.uri, i.hostname = id.Original().Headers()
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

// read fills the state from a request. It returns why the request is refused, or
// nil, and whether it is time to warn.
func (i *identity) read(j *requestState, ctx *fasthttp.RequestCtx, forwarded bool, hints *proxyHints, f *badRequests) (bad *badRequest, warn warning) {
	peer := conn.PeerAddr(ctx)
	h := &ctx.Request.Header
	trusted := i.clients.Trusted(peer)
	if hints.untrusted.Note(peer, trusted, forwarded) {
		warn = warnUntrusted
	}
	var elements [][]byte
	if trusted {
		elements = h.PeekAll(i.client)
	}
	client, named, ok := i.clients.Client(peer, elements)
	if !ok {
		return &f.peer, warn
	}
	o := original{method: h.Method(), target: h.RequestURI(), host: h.Host(), named: true}
	if len(o.target) > 0 && o.target[0] != '/' {
		o.authority()
	}
	if trusted && !i.original(h, &o) {
		return &f.target, warn
	}
	j.request = policy.Request{Client: client, Method: o.method, Fields: j}
	if trusted && !(named && o.named) {
		if hints.unnamed.Note(!named, !o.named) {
			warn = warnUnnamed
		}
		if !i.admitUnnamed(&j.request, named) {
			return &f.unnamed, warn
		}
	}
	if bad := o.canonical(j, h, f); bad != nil {
		return bad, warn
	}
	if len(i.keys) > 0 && repeated(h, i.keys) {
		return &f.repeated, warn
	}
	j.header = h
	return nil, warn
}

// admitUnnamed does with a request what on_unnamed says, and reports whether it
// goes on.
func (i *identity) admitUnnamed(r *policy.Request, named bool) bool {
	switch i.clients.OnUnnamed() {
	case policy.UnnamedDeny:
		return false
	case policy.UnnamedSkip:
		r.Unnamed = true
		if !named {
			r.Client = netip.Addr{} // the lists must not know the proxy either
		}
	}
	return true
}

// original is the request that a decision is about.
type original struct {
	method, target, host []byte

	otherHost bool // host is not that of the Host header
	named     bool // the proxy named the target, or need not
}

// authority lets the authority of an absolute target win over Host, RFC 9112
// §3.2.2.
func (o *original) authority() {
	if a := policy.Authority(o.target); a != nil {
		o.host, o.otherHost = a, true
	}
}

// original replaces method, target and host by those that a trusted proxy names.
// It fails where one is named twice: the other may be the client's.
func (i *identity) original(h *fasthttp.RequestHeader, o *original) bool {
	for _, part := range [...]struct {
		name string
		into *[]byte
	}{{i.method, &o.method}, {i.uri, &o.target}, {i.hostname, &o.host}} {
		if part.name == "" {
			continue
		}
		v := h.PeekAll(part.name)
		if len(v) > 1 {
			return false
		}
		switch empty := len(v) == 0 || len(v[0]) == 0; {
		case !empty:
			*part.into = v[0]
			o.otherHost = o.otherHost || part.into == &o.host
		case part.into == &o.target:
			o.named = false
		}
	}
	return true
}

// canonical puts path and host into the request of the state.
func (o *original) canonical(j *requestState, h *fasthttp.RequestHeader, f *badRequests) *badRequest {
	var ok bool
	if j.request.Path, ok = j.scratch.Path(o.target); !ok {
		return &f.target
	}
	if o.otherHost { // a Host that is not valid is refused all the same, RFC 9112 §3.2
		if _, ok = j.scratch.Host(h.Host()); !ok {
			return &f.host
		}
	}
	if j.request.Host, ok = j.scratch.Host(o.host); !ok {
		return &f.host
	}
	return nil
}
