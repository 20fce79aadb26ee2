package decide

import (
	"context"
	"errors"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// blame charges a bad request to its peer, so that floods of them count and are banned like others. The
// answer stays the same. Nobody is blamed for others: the sender behind a trusted proxy is unknown, and
// without an address nobody can be charged.
//
// A connection without any bytes is not a request: browsers open some in advance.
func (s *Service) blame(b *badRequest, c *conn.Conn) {
	if b.spared || c == nil || c.Quiet() {
		return
	}
	s.charge(c)
}

// refusedUnread counts a malformed request over HTTP/2, and charges it. Nothing is left of it to log or
// answer.
func (s *Service) refusedUnread(c *conn.Conn) {
	s.bad.malformed.Count.Add(1)
	s.badLog.Note(&s.bad.malformed.Reason, c.Addr(), errUnread)
	s.charge(c)
}

var errUnread = errors.New("a stream was refused")

// charge charges a request about which nothing is known to its peer.
func (s *Service) charge(c *conn.Conn) {
	snap := s.current.Load()
	if snap.unread == nil || snap.identity.Trusted(c.Addr()) {
		return
	}
	r := snap.begin(0, c, c.Addr())
	defer r.end()
	r.request, r.from = policy.Request{Client: c.Addr()}, policy.AssembleResult{}
	r.verdict = snap.unread.DecideAt(context.Background(), &r.request, &r.scratch, s.clock.now())
	if d := &r.verdict.Decision; !d.Allowed && d.Stage == fastlimit.StageBan && s.expeller != nil {
		s.expel(r)
	}
}
