package decide

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/internal/breakdown"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/accesslog"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/valyala/fasthttp"
)

// These functions write the access log, and count a sample of the requests in a [breakdown.Load], each as
// several (units). units is 0 for those that are only in the log.

// noted decides what, if anything, is recorded of a request when it has been answered.
func (s *Service) noted() (units uint64, some bool) {
	units = s.load.Drawn()
	return units, units > 0 || s.access != nil
}

// noteAnswer records fasthttp's response. bad is why the request was refused, r is what was decided on; both
// may be nil.
func (s *Service) noteAnswer(ctx *fasthttp.RequestCtx, bad *badRequest, r *requestState, units uint64) {
	if units > 0 {
		h := &ctx.Request.Header
		s.count(h.Method(), h.RequestURI(), h.UserAgent(), ctx.Response.StatusCode(), conn.PeerAddr(ctx), r, units)
	}
	if s.access != nil {
		s.logAnswer(ctx, bad, r)
	}
}

func (s *Service) logAnswer(ctx *fasthttp.RequestCtx, bad *badRequest, r *requestState) {
	h := &ctx.Request.Header
	e := accesslog.Entry{
		Time: ctx.Time(), Method: h.Method(), Host: h.Host(), Path: h.RequestURI(), Status: ctx.Response.StatusCode(),
		UserAgent: h.UserAgent(), Referer: h.Referer(),
	}
	if !h.IsHead() {
		e.Bytes = int64(len(ctx.Response.Body()))
	}
	if bad != nil {
		e.Decision, e.Reason = "refused", bad.Name
	}
	s.write(&e, conn.Of(ctx), conn.PeerAddr(ctx), r)
}

// noteSimple records an answer that was made without fasthttp.
func (s *Service) noteSimple(sent []byte, bad *badRequest, r *requestState, units uint64) {
	if units > 0 {
		s.countSimple(statusOf(sent), r, units)
	}
	if s.access != nil {
		s.logSimple(sent, bad, r)
	}
}

func (s *Service) countSimple(status int, r *requestState, units uint64) {
	s.count(r.head.Method, r.head.Target, first(r.Header("User-Agent")), status, r.peer, r, units)
}

func (s *Service) logSimple(sent []byte, bad *badRequest, r *requestState) {
	e := entryOf(r)
	e.Status = statusOf(sent)
	if i := bytes.Index(sent, headEnd); i >= 0 {
		e.Bytes = int64(len(sent) - i - len(headEnd))
	}
	if bad != nil {
		e.Decision, e.Reason = "refused", bad.Name
	}
	s.write(&e, r.conn, r.peer, r)
}

// entryOf begins the entry of a request that was read without fasthttp.
func entryOf(r *requestState) accesslog.Entry {
	return accesslog.Entry{
		Time: r.read, Method: r.head.Method, Host: r.head.Host, Path: r.head.Target,
		UserAgent: first(r.Header("User-Agent")), Referer: first(r.Header("Referer")),
	}
}

// noteUnread records a request that was refused before it was parsed. h is nil if not even its head was.
func (s *Service) noteUnread(bad *badRequest, c *conn.Conn, h *conn.Head) {
	units, some := s.noted()
	if !some {
		return
	}
	e := accesslog.Entry{Time: s.clock.now(), Status: bad.Status, Bytes: int64(len(bad.body)), Decision: "refused", Reason: bad.Name}
	if h != nil {
		e.Method, e.Host, e.Path = h.Method, h.Host, h.Target
	}
	if units > 0 {
		s.count(e.Method, e.Path, nil, e.Status, c.Addr(), nil, units)
	}
	if s.access != nil {
		s.write(&e, c, c.Addr(), nil)
	}
}

// Line is the record of a request that is passed on. It is used once. Its text is borrowed from the head of
// the request.
type Line struct {
	entry accesslog.Entry
	units uint64
	from  *Service
}

// line begins the line of a request that was admitted.
func (s *Service) line(r *requestState, units uint64) *Line {
	l := s.lines.Get().(*Line)
	l.from, l.units = s, units
	if units > 0 {
		s.countSimple(0, r, units)
	}
	if s.access != nil {
		l.entry = entryOf(r)
		complete(&l.entry, r.conn, r.peer, r)
	}
	return l
}

// Done records the answer: the length of its body, the upstream that sent it, "" if none did, and the time
// until its head.
func (l *Line) Done(status int, bytes int64, server string, until time.Duration) {
	if l.from.access != nil {
		e := &l.entry
		e.Status, e.Bytes, e.Upstream, e.UpstreamTime = status, bytes, server, until
		e.Duration = time.Since(e.Time)
		l.from.access.Write(e)
	}
	if l.units > 0 {
		l.from.load.Answered(status, l.units)
	}
	l.entry = accesslog.Entry{}
	l.from.lines.Put(l)
}

var headEnd = []byte("\r\n\r\n")

// statusOf reads the status of a response that we have rendered.
func statusOf(response []byte) (status int) {
	const at = len("HTTP/1.1 ")
	for i := at; i < at+3 && i < len(response); i++ {
		status = 10*status + int(response[i]-'0')
	}
	return status
}

func first(values [][]byte) []byte {
	if len(values) == 0 {
		return nil
	}
	return values[0]
}

// write writes an entry, with the fields that all have in common.
func (s *Service) write(e *accesslog.Entry, c *conn.Conn, peer netip.Addr, r *requestState) {
	complete(e, c, peer, r)
	s.access.Write(e)
}

// count counts a request in the sample: as rules see it, if one was decided on, else as it came from peer.
// Only the latter may have a query: a rule's path may have any byte.
func (s *Service) count(method, path, agent []byte, status int, peer netip.Addr, r *requestState, units uint64) {
	if i := bytes.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	q := breakdown.Request{Client: peer, Method: method, Path: path, Agent: agent, Status: status}
	if r != nil {
		q.Denied = r.verdict.Refused == policy.NotRefused && !r.verdict.Decision.Allowed
		if r.request.Client.IsValid() {
			q.Client = r.request.Client
		}
		if len(r.request.Path) > 0 {
			q.Method, q.Path = r.request.Method, r.request.Path
		}
	}
	s.load.Note(&q, units)
}

// complete adds what all entries have in common.
func complete(e *accesslog.Entry, c *conn.Conn, peer netip.Addr, r *requestState) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Duration = time.Since(e.Time)
	e.Peer, e.Client = peer, peer
	if c != nil {
		e.Reused = c.Reused()
	}
	if r == nil {
		return
	}
	if e.Client = r.request.Client; !e.Client.IsValid() {
		e.Client = peer // the proxy: nothing else is known
	}
	method, target, host := r.identity().Original(&r.request)
	if len(method) > 0 {
		e.Method = method
	}
	if len(target) > 0 {
		e.Path = target
	}
	if len(host) > 0 {
		e.Host = host
	}
	v := &r.verdict
	if v.Rule != nil {
		e.Rule = v.Rule.Name()
	}
	if e.Decision == "" {
		e.Decision, e.Stage = "deny", v.Decision.Stage.String()
		if v.Decision.Allowed {
			e.Decision = "allow"
		}
	}
}
