package server

import (
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// SetRules makes new requests be decided by other rules: Limiter, from With of the current one, Engine, Tiers
// and Ready of a Config. Everything else stays, including lists and listeners. It cannot fail, and is safe
// for concurrent use with everything except SetEngine.
func (s *Server) SetRules(l *fastlimit.Limiter, e *policy.Engine, tiers []*fastlimit.Rule, ready func() error) {
	s.reloads.Lock()
	defer s.reloads.Unlock()
	now := s.state.Load()
	next := *now
	c := &next.config
	c.Limiter, c.Engine, c.Tiers, c.Ready = l, e.WithLists(s.Lists()), tiers, ready
	s.swap(now, &next)
}

// liveFor is the time until a rule is as configured again; 0: it is.
func (s *Server) liveFor(rule string) time.Duration {
	if c := s.config(); c.Rules != nil {
		return c.Rules.Left(rule)
	}
	return 0
}
