package decide

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/latency"
	"github.com/valyala/fasthttp"
)

// requestState is one request: where it came from, what the policy is asked and has answered, and the buffers
// it borrows. It is the request's [policy.Fields].
type requestState struct {
	snap     *Snapshot
	listener int
	conn     *conn.Conn // nil: it did not come from a [conn.Listener]
	peer     netip.Addr
	head     *conn.Head // nil: fasthttp has read it
	read     time.Time  // when the clock was read for it

	from    policy.AssembleResult
	verdict policy.Verdict
	request policy.Request
	scratch policy.Scratch
	values  denial.Buffer
	raw     []byte   // the field lines of its head
	fields  [][]byte // of the last lookup
	stripe  uint32   // of the counters
	sampler latency.Sampler
	began   time.Time // zero: the durations of this request are not counted
	last    lastDenial
}

// setStates makes the pool of states. A pool has about one per core, whose memory stays in that core's cache.
// Each snapshot has its own: a state keeps pointers to the rules and answers of its last requests, and so the
// memory of a limiter (TestReloadReleasesTheOldRules).
func (s *Snapshot) setStates() {
	s.states.New = func() any {
		return &requestState{snap: s, stripe: statesMade.Add(1), sampler: latency.NewSampler()}
	}
}

// begin returns a state for a request that begins now. c may be nil.
func (s *Snapshot) begin(listener int, c *conn.Conn, peer netip.Addr) *requestState {
	r := s.states.Get().(*requestState)
	r.listener, r.conn, r.peer = listener, c, peer
	if r.sampler.Next() {
		r.began = time.Now()
	}
	return r
}

// end returns the state to the pool, without what it borrowed, which the pool would keep alive.
func (j *requestState) end() {
	j.raw, j.conn, j.head = nil, nil, nil
	j.request = policy.Request{}
	if !j.began.IsZero() {
		j.began = time.Time{}
	}
	j.snap.states.Put(j)
}

var statesMade atomic.Uint32

// Header implements [policy.Fields]. It reads the head as it came: fasthttp keeps only one value of some
// headers, and adds those that a client sends after the body to the others, though no proxy has checked them
// (TestCostOverTheWire).
func (j *requestState) Header(name string) [][]byte {
	j.fields = appendHeaders(j.fields[:0], j.raw, name)
	return j.fields
}

// Cookie implements [policy.Fields].
func (j *requestState) Cookie(name string) [][]byte {
	j.fields = appendCookies(j.fields[:0], j.raw, name)
	return j.fields
}

// passedFields are the fields that an upstream gets: all except those named by a Connection field, which
// belong to the connection. Rules must not read these, or a client could be counted by a key that the
// upstream never sees.
type passedFields requestState

// Header implements [policy.Fields].
func (p *passedFields) Header(name string) [][]byte {
	all := (*requestState)(p).Header(name)
	if len(all) > 0 && removes(p.raw, name) {
		return nil
	}
	return all
}

// Cookie implements [policy.Fields].
func (p *passedFields) Cookie(name string) [][]byte {
	all := (*requestState)(p).Cookie(name)
	if len(all) > 0 && removes(p.raw, fasthttp.HeaderCookie) {
		return nil
	}
	return all
}

// proxyHints count problems with the proxies in front, and warn once.
type proxyHints struct {
	untrusted policy.ProxyHint
	unnamed   policy.UnnamedHint
}

// warning is a problem with a proxy that is logged once.
type warning uint8

const (
	warnNothing warning = iota
	warnUntrusted
	warnUnnamed
)

// note counts and returns the problem with the proxy in front of a request. forwarded: a request on its
// connection had a forwarding header.
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
func (j *requestState) assemble(h *fasthttp.RequestHeader) {
	j.raw = h.RawHeaders()
	in := policy.Incoming{Peer: j.peer, Method: h.Method(), Target: h.RequestURI(), Host: h.Host(), Fields: j}
	j.from = j.snap.engine.Assemble(j.identity(), &in, &j.scratch, &j.request)
}

// assembleSimple fills the state from the head of a simple request, or of one to pass on.
func (j *requestState) assembleSimple(h *conn.Head, passes bool) {
	j.head, j.raw = h, h.Fields
	in := policy.Incoming{Peer: j.peer, Method: h.Method, Target: h.Target, Host: h.Host, Fields: j}
	if passes {
		in.Passed = (*passedFields)(j)
	}
	j.from = j.snap.engine.Assemble(j.identity(), &in, &j.scratch, &j.request)
}

func (j *requestState) identity() *policy.Identity { return j.snap.identityOf(j.listener) }
