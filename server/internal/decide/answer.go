package decide

import (
	"context"
	"time"

	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// answerSimple answers a request without a body, without fasthttp's response: it appends to dst what
// [Service.answer] would make fasthttp write, and reports whether the connection ends with it. If not ok,
// nothing was charged, counted or appended, and the request is left to answer: all bad ones except for bad
// costs, and batches. It does not allocate (TestAnswerDoesNotAllocate).
//
// With atOnce the request is also left to answer, or a later answerSimple, if it may have to wait for a
// store, a slot in a queue, or an upstream. Most of a flood need not.
func (s *Service) answerSimple(dst []byte, c *conn.Conn, h *conn.Head, listener int, atOnce bool) (out []byte, last, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			out, last, ok = s.panicked(dst, c, p), true, true
		}
	}()
	snap := s.current.Load()
	if !plainTarget(h.Method, h.Target) || snap.batches && string(h.Target) == BatchPath {
		return dst, false, false
	}
	switch {
	case atOnce && snap.waits:
		return dst, false, false
	case atOnce && (s.forwarder != nil || snap.asks):
		return s.denySimple(dst, c, h, snap, listener)
	case s.forwarder != nil && h.Old: // its answer must not be chunked; Relay handles that
		return dst, false, false
	case s.forwarder != nil:
		return s.passSimple(dst, c, h, snap, listener)
	}
	out, last, refused := s.decideHead(dst, c, h, snap, listener, nil)
	return out, last, refused == policy.NotRefused
}

// denySimple answers a request that is denied by what this node knows.
func (s *Service) denySimple(dst []byte, c *conn.Conn, h *conn.Head, snap *Snapshot, listener int) (out []byte, last, ok bool) {
	r := snap.begin(listener, c, c.Addr())
	defer r.end()
	if r.assembleSimple(h, s.forwarder != nil); r.from.Refused != policy.NotRefused {
		return dst, false, false
	}
	r.read = s.clock.now()
	decision := s.took.beginDecision(r)
	if r.verdict, ok = snap.engine.DenyAt(&r.request, &r.scratch, r.read); !ok {
		return dst, false, false
	}
	s.took.endDecision(decision, r)
	_, forwarded := c.BeginRequest()
	s.hint(r, forwarded)
	s.noteVerdict(r)
	last = c.Denied() || c.LastRequest()
	return s.appendVerdict(dst, r, r.read, last), last, true
}

// passSimple does the same where admitted requests are passed on. It is a separate function so that the
// stacks of connections without an upstream stay small (TestIdleConnectionsHoldLittle).
func (s *Service) passSimple(dst []byte, c *conn.Conn, h *conn.Head, snap *Snapshot, listener int) (out []byte, last, ok bool) {
	var a Admission
	out, last, refused := s.decideHead(dst, c, h, snap, listener, &a)
	if a.Admitted {
		out, last = s.forwarder.Forward(dst, c, h, a)
	}
	return out, last, refused == policy.NotRefused
}

// panicked answers a request that panicked.
func (s *Service) panicked(dst []byte, c *conn.Conn, p any) (out []byte) {
	s.notePanic(p)
	c.LeaveUnread()
	return s.bad.internal.append(dst)
}

// decideHead decides on a request with a valid target, and appends the answer. If it is refused, nothing has
// happened and out is dst. If it is admitted and there is a forwarder, a is filled in, and the forwarder
// answers. Without one a is nil.
func (s *Service) decideHead(dst []byte, c *conn.Conn, h *conn.Head, snap *Snapshot, listener int, a *Admission) (out []byte, last bool, refused policy.Refusal) {
	r := snap.begin(listener, c, c.Addr())
	defer r.end()
	if r.assembleSimple(h, s.forwarder != nil); r.from.Refused != policy.NotRefused {
		return dst, false, r.from.Refused
	}
	_, forwarded := c.BeginRequest()
	now := s.clock.now()
	r.read = now
	s.judge(context.Background(), r, forwarded)
	v := &r.verdict
	if v.Refused != policy.NotRefused {
		bad := s.bad.refused(v.Refused)
		s.badLog.Note(&bad.Reason, c.Addr(), refusalOf(v))
		c.LeaveUnread()
		out = bad.append(dst)
		if units, some := s.noted(); some {
			s.noteSimple(out[len(dst):], bad, r, units)
		}
		return out, true, policy.NotRefused
	}
	if s.forwarder != nil && v.Decision.Allowed {
		s.admit(a, dst, r)
		return dst, false, policy.NotRefused
	}
	last = !v.Decision.Allowed && (c.Denied() || a != nil && a.LastIfDenied) || c.LastRequest()
	if snap.waits {
		now = s.clock.now() // it may be later by now
	}
	return s.appendVerdict(dst, r, now, last), last, policy.NotRefused
}

// appendVerdict appends the answer to a request that was judged, and ends it.
func (s *Service) appendVerdict(dst []byte, r *requestState, now time.Time, last bool) (out []byte) {
	snap, v, date := r.snap, &r.verdict, s.dates.at(now)
	switch {
	case v.Decision.Allowed && !snap.always:
		out = snap.allowed.end(snap.allowed.begin(dst, date), last)
	case v.Decision.Allowed:
		out = snap.allowed.end(r.appendShown(snap.allowed.begin(dst, date)), last)
	case v.List == policy.ListDeny:
		out = snap.listed.end(snap.listed.begin(dst, date), last)
	default:
		out = r.appendDenial(dst, snap.denialOf(v, r.listener), date, &v.Decision, last)
	}
	if units, some := s.noted(); some {
		s.noteSimple(out[len(dst):], nil, r, units)
	}
	s.took.endRequest(r)
	return out
}

// appendShown appends the lines that show an admitted client its limit.
func (r *requestState) appendShown(dst []byte) []byte {
	if a, d := r.shown(); a != nil {
		return a.AppendFields(dst, &d)
	}
	return dst
}
