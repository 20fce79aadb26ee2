package decide

import (
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/latency"
)

// Forwarder passes admitted requests on, in place of an empty 200. It is safe for concurrent
// use.
type Forwarder interface {
	// Forward passes a request without a body on. It appends the answer, or what is left of it to be sent,
	// and reports whether the connection ends with it. All slices are borrowed for the call, and a.Shown may
	// share memory with dst.
	Forward(dst []byte, c *conn.Conn, h *conn.Head, a Admission) (out []byte, last bool)

	// Relay serves the requests of a connection that are not simple; see
	// [conn.Handlers]. It asks [Service.Admit].
	Relay(c *conn.Conn, listener int) (more bool)
}

// Admission is what is known of a request that was admitted and has to be passed on.
type Admission struct {
	LastIfDenied bool // set by the caller: a denial ends the connection

	Admitted bool
	Client   netip.Addr // invalid: unknown
	Trusted  bool       // the peer is a trusted proxy
	Shown    []byte     // field lines for the answer, which show the client its limit

	Hidden []string // fields of the answer that are for fastlimit and not for clients
	Owed   *Owed    // nil: the answer does not report the cost. Owned by the forwarder from now on
	Line   *Line    // nil: nothing is recorded of it. Likewise

	Watch latency.Watch // to be stopped when the answer has been passed on
}

// admit fills in what is known of a request that was admitted.
func (s *Service) admit(a *Admission, dst []byte, r *requestState) {
	a.Admitted, a.Client, a.Trusted = true, r.request.Client, r.request.Trusted
	a.Watch = s.took.watch(r)
	if r.snap.always {
		a.Shown = r.appendShown(dst)[len(dst):]
	}
	if r.snap.owes {
		s.owe(a, r)
	}
	if units, some := s.noted(); some {
		a.Line = s.line(r, units)
	}
}

// Admit decides on a request that a [Forwarder] has read, once its head has come. If it is not admitted, it
// appends the answer and reports whether the connection ends with it. The head must be valid HTTP/1, with a
// method and target that RFC 9112 allows. It does not allocate.
func (s *Service) Admit(dst []byte, c *conn.Conn, h *conn.Head, listener int, a *Admission) (out []byte, last bool) {
	out, last, refused := s.decideHead(dst, c, h, s.current.Load(), listener, a)
	if refused == policy.NotRefused {
		return out, last
	}
	_, _ = c.BeginRequest() // nothing has passed the gate
	bad := s.bad.refused(refused)
	s.badLog.Note(&bad.Reason, c.Addr(), nil)
	s.blame(bad, c)
	c.LeaveUnread()
	s.noteUnread(bad, c, h)
	return bad.append(dst), true
}

// Refuse appends the answer to a request that could not be read, which ends the connection. It counts and
// logs it according to err.
func (s *Service) Refuse(dst []byte, c *conn.Conn, err error) []byte {
	bad := s.bad.of(err)
	s.blame(bad, c)
	_, _ = c.BeginRequest() // nothing has passed the gate
	s.noteUnread(bad, c, nil)
	out, _ := s.RefuseBody(dst, c, err)
	return out
}

// RefuseBody does the same for a request that was admitted, and whose body could not be read. It also returns
// the status of the answer, and leaves the access log to the caller.
func (s *Service) RefuseBody(dst []byte, c *conn.Conn, err error) (out []byte, status int) {
	bad := s.bad.of(err)
	s.badLog.Note(&bad.Reason, c.Addr(), err)
	c.LeaveUnread()
	return bad.append(dst), bad.Status
}

// HeadTooLong is the error for a head that is too long.
type HeadTooLong struct{}

// Error implements error.
func (*HeadTooLong) Error() string { return "the head is too long" }

// Panicked counts and logs a panic while a request was forwarded.
func (s *Service) Panicked(p any) { s.notePanic(p) }

// BodyBytes is how much of a body is read and dropped to keep the connection.
func (s *Service) BodyBytes() int { return s.maxBody }

// Date returns the line of the Date header, with its CRLF.
func (s *Service) Date() []byte { return s.dates.at(s.clock.now()) }

// Now returns the time like [time.Now].
func (s *Service) Now() time.Time { return s.clock.now() }
