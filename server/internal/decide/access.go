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

// note adds what both have in common.
func (s *Service) note(e *accesslog.Entry, c *conn.Conn, peer netip.Addr, snap *Snapshot, listener int, r *requestState, v *policy.Verdict) {
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
	s.access.Write(e)
}
