package decide

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/accesslog"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/valyala/fasthttp"
)

// These functions write the access log. They are called only if there is one.

// noteAnswer notes what fasthttp's response says. bad is why the request was refused, r and
// v are what is known otherwise; all may be nil.
func (s *Service) noteAnswer(ctx *fasthttp.RequestCtx, bad *badRequest, snap *Snapshot, listener int, r *requestState, v *policy.Verdict) {
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
	s.note(&e, conn.Of(ctx), conn.PeerAddr(ctx), snap, listener, r, v)
}

// noteSimple notes an answer that was put together without fasthttp.
func (s *Service) noteSimple(sent []byte, bad *badRequest, c *conn.Conn, h *conn.Head, read time.Time, snap *Snapshot, listener int, r *requestState, v *policy.Verdict) {
	e := accesslog.Entry{Time: read, Method: h.Method, Host: h.Host, Path: h.Target, Status: statusOf(sent)}
	if i := bytes.Index(sent, headEnd); i >= 0 {
		e.Bytes = int64(len(sent) - i - len(headEnd))
	}
	if bad != nil {
		e.Decision, e.Reason = "refused", bad.Name
	}
	e.UserAgent, e.Referer = first(r.Header("User-Agent")), first(r.Header("Referer"))
	s.note(&e, c, c.Addr(), snap, listener, r, v)
}

// noteUnread notes a request that was refused before it was understood. h is nil if not even
// its head was.
func (s *Service) noteUnread(bad *badRequest, c *conn.Conn, h *conn.Head) {
	if s.access == nil {
		return
	}
	e := accesslog.Entry{Time: s.clock.now(), Status: bad.Status, Bytes: int64(len(bad.body)), Decision: "refused", Reason: bad.Name}
	if h != nil {
		e.Method, e.Host, e.Path = h.Method, h.Host, h.Target
	}
	s.note(&e, c, c.Addr(), nil, 0, nil, nil)
}

// Line is the line of the access log for a request that is passed on. It is used once.
// Its text is borrowed from the head of the request.
type Line struct {
	entry accesslog.Entry
	from  *Service
}

// line begins the line of a request that was admitted.
func (s *Service) line(c *conn.Conn, h *conn.Head, read time.Time, snap *Snapshot, listener int, r *requestState, v *policy.Verdict) *Line {
	l := s.lines.Get().(*Line)
	l.from, l.entry = s, accesslog.Entry{Time: read, Method: h.Method, Host: h.Host, Path: h.Target}
	l.entry.UserAgent, l.entry.Referer = first(r.Header("User-Agent")), first(r.Header("Referer"))
	s.complete(&l.entry, c, c.Addr(), snap, listener, r, v)
	return l
}

// Done writes the line: bytes are those of the answer's body, server is the upstream that has
// given it, "" if none has, until the time to its head.
func (l *Line) Done(status int, bytes int64, server string, until time.Duration) {
	e := &l.entry
	e.Status, e.Bytes, e.Upstream, e.UpstreamTime = status, bytes, server, until
	e.Duration = time.Since(e.Time)
	l.from.access.Write(e)
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

// note writes an entry, with what all have in common.
func (s *Service) note(e *accesslog.Entry, c *conn.Conn, peer netip.Addr, snap *Snapshot, listener int, r *requestState, v *policy.Verdict) {
	s.complete(e, c, peer, snap, listener, r, v)
	s.access.Write(e)
}

// complete adds what all entries have in common.
func (s *Service) complete(e *accesslog.Entry, c *conn.Conn, peer netip.Addr, snap *Snapshot, listener int, r *requestState, v *policy.Verdict) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Duration = time.Since(e.Time)
	e.Peer, e.Client = peer, peer
	if c != nil {
		e.Reused = c.Reused()
	}
	if r != nil {
		if e.Client = r.request.Client; !e.Client.IsValid() {
			e.Client = peer // the proxy: nobody else is known
		}
		method, target, host := snap.identityOf(listener).Original(&r.request)
		if len(method) > 0 {
			e.Method = method
		}
		if len(target) > 0 {
			e.Path = target
		}
		if len(host) > 0 {
			e.Host = host
		}
	}
	if v != nil {
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
}
