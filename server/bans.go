package server

import (
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/decide"
)

// SetBans has requests that begin from now on decided by these bans of operators. All else
// stays as it is. It is safe for concurrent use.
func (s *Server) SetBans(b *policy.Bans) {
	s.decide.Update(func(now *decide.Snapshot) *decide.Snapshot { return now.WithBans(b) })
}

// Lists are the allow and deny lists that requests are decided by; nil if there are none.
func (s *Server) Lists() *policy.Lists { return s.decide.Snapshot().Lists() }
