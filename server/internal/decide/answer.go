package decide

import (
	"context"

	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// answerSimple answers a request that has no body, without fasthttp's response: it
// appends to dst what [Service.answer] would have fasthttp write, and reports whether
// the connection ends with it. If not ok, nothing was charged, counted or appended,
// and the request is answer's: all that is bad is, but for costs, and batches. It does not
// allocate (TestAnswerDoesNotAllocate).
func (s *Service) answerSimple(dst []byte, c *conn.Conn, h *conn.Head, listener int) (out []byte, last, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			out, last, ok = s.panicked(dst, c, p), true, true
		}
	}()
	snap := s.current.Load()
	if !plainTarget(h.Method, h.Target) || snap.batches && string(h.Target) == BatchPath {
		return dst, false, false
	}
	var a Admission
	out, last, refused := s.decideHead(dst, c, h, snap, listener, &a)
	switch {
	case refused != policy.NotRefused:
		return dst, false, false
	case a.Admitted:
		out, last = s.forwarder.Forward(dst, c, h, a)
	}
	return out, last, true
}

// panicked answers a request that panicked.
func (s *Service) panicked(dst []byte, c *conn.Conn, p any) (out []byte) {
	s.notePanic(p)
	c.LeaveUnread()
	return s.bad.internal.append(dst)
}

// decideHead decides on a request whose target is valid, and appends the answer. If it
// is refused, nothing has happened. If it is admitted and there is a forwarder, a is filled in, and the answer is its.
func (s *Service) decideHead(dst []byte, c *conn.Conn, h *conn.Head, snap *Snapshot, listener int, a *Admission) (out []byte, last bool, refused policy.Refusal) {
	r := snap.states.get()
	defer snap.states.put(r)
	from := r.assembleSimple(snap, listener, c.Addr(), h)
	if from.Refused != policy.NotRefused {
		return dst, false, from.Refused
	}
	_, forwarded := c.BeginRequest()
	now := s.clock.now()
	v := s.judge(context.Background(), c, r, snap, c.Addr(), &from, forwarded, now)
	if v.Refused != policy.NotRefused {
		bad := s.bad.refused(v.Refused)
		s.badLog.Note(&bad.Reason, c.Addr(), refusalOf(&v))
		c.LeaveUnread()
		return bad.append(dst), true, policy.NotRefused
	}
	if s.forwarder != nil && v.Decision.Allowed {
		a.Admitted, a.Trusted, a.Shown = true, from.Trusted, nil
		if snap.always {
			a.Shown = appendShown(dst, snap, listener, &v, r)[len(dst):]
		}
		if snap.owes {
			s.owe(a, snap, r, now)
		}
		return dst, false, policy.NotRefused
	}
	last = !v.Decision.Allowed && (c.Denied() || a.LastIfDenied) || c.LastRequest()
	if snap.waits {
		now = s.clock.now() // it may be later by now
	}
	date := s.dates.at(now)
	switch {
	case v.Decision.Allowed && !snap.always:
		return snap.allowed.end(snap.allowed.begin(dst, date), last), last, policy.NotRefused
	case v.Decision.Allowed:
		out = appendShown(snap.allowed.begin(dst, date), snap, listener, &v, r)
		return snap.allowed.end(out, last), last, policy.NotRefused
	case v.Rule == nil:
		return snap.listed.end(snap.listed.begin(dst, date), last), last, policy.NotRefused
	}
	return r.appendDenial(dst, snap.denial(v.Rule, listener), date, &v.Decision, last), last, policy.NotRefused
}

// appendShown appends the lines that tell an admitted client what is known of its limit.
func appendShown(dst []byte, snap *Snapshot, listener int, v *policy.Verdict, r *requestState) []byte {
	if a, d := snap.shown(listener, v, &r.scratch); a != nil {
		return a.AppendFields(dst, &d)
	}
	return dst
}
