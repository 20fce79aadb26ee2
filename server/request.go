package server

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/internal/policy"
	"github.com/valyala/fasthttp"
)

// job is the working memory of one request: what the policy is asked and the
// buffers it borrows. It is the request's [policy.Fields].
type job struct {
	request policy.Request
	scratch policy.Scratch
	values  denial.Values
	header  *fasthttp.RequestHeader
	stripe  uint32 // of the counters
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
func (j *job) Header(name string) ([]byte, bool) {
	v := j.header.Peek(name)
	return v, v != nil
}

// Cookie implements [policy.Fields].
func (j *job) Cookie(name string) ([]byte, bool) {
	v := j.header.Cookie(name)
	return v, v != nil
}

// identity names the client of a connection and the request it asks about.
type identity struct {
	clients policy.Identity // a copy
	hint    policy.ProxyHint

	// The header that names the client, and those that name the original
	// request, empty where there is none.
	client, method, uri, hostname string
}

func (i *identity) init(id *policy.Identity) {
	i.clients, i.client = *id, id.Header()
	i.method, i.uri, i.hostname = id.Original().Headers()
}

// read fills the job from a request. It returns the fault for which the request
// is refused, or nil; warn tells that it is time to warn of a proxy that is not
// trusted.
func (i *identity) read(j *job, ctx *fasthttp.RequestCtx, forwarded bool, f *faults) (bad *fault, warn bool) {
	peer := peerAddr(ctx)
	h := &ctx.Request.Header
	trusted := i.clients.Trusted(peer)
	warn = i.hint.Note(peer, trusted, forwarded)

	var named [][]byte
	method, target, host := h.Method(), h.RequestURI(), h.Host()
	if len(target) > 0 && target[0] != '/' {
		if authority := policy.Authority(target); authority != nil {
			host = authority // RFC 9112 §3.2.2: it wins over Host
		}
	}
	if trusted {
		named = h.PeekAll(i.client)
	}
	client, _, ok := i.clients.Client(peer, named)
	if !ok {
		return &f.peer, warn
	}
	if trusted && !i.original(h, &method, &target, &host) {
		return &f.target, warn
	}
	path, ok := j.scratch.Path(target)
	if !ok {
		return &f.target, warn
	}
	if host, ok = j.scratch.Host(host); !ok {
		return &f.host, warn
	}
	j.header = h
	j.request = policy.Request{Client: client, Method: method, Host: host, Path: path, Fields: j}
	return nil, warn
}

// original replaces method, target and host by those that a trusted proxy names.
// It fails where one is named twice: the other may be the client's.
func (i *identity) original(h *fasthttp.RequestHeader, method, target, host *[]byte) bool {
	for _, o := range [...]struct {
		name string
		into *[]byte
	}{{i.method, method}, {i.uri, target}, {i.hostname, host}} {
		if o.name == "" {
			continue
		}
		switch v := h.PeekAll(o.name); len(v) {
		case 0:
		case 1:
			*o.into = v[0]
		default:
			return false
		}
	}
	return true
}

// peerAddr is the address of a TCP peer, invalid for any other: fasthttp's
// RemoteIP makes 0.0.0.0 of those, a key that they would all share.
func peerAddr(ctx *fasthttp.RequestCtx) netip.Addr {
	if c, ok := ctx.Conn().(*conn); ok {
		return c.addr
	}
	return tcpAddr(ctx.RemoteAddr())
}

// tcpAddr leaves the zone out: it names our interface, not the client.
func tcpAddr(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(tcp.IP)
	return addr.Unmap()
}
