package server

import (
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/decide"
	"github.com/fastlimit/fastlimit/server/internal/logs"
)

// Bans are the clients who are refused for a while, by rules or by operators, for /v1/bans.
// Errors as those of [Overrides].
type Bans interface {
	// List returns a document that encodes as JSON, with up to limit bans; of all rules if
	// rule is "".
	List(rule string, limit int) (any, error)
	// Ban makes the ban of a body, Unban ends what a key is banned by, of all rules if rule
	// is ""; by is the caller's address.
	Ban(body []byte, by string) (reply any, err error)
	Unban(rule string, key []string, by string) (reply any, err error)
}

// Banned logs a ban that a rule has begun: have the limiter's OnBan call it. It does not
// block, and is safe for concurrent use.
func (s *Server) Banned(b fastlimit.Ban) {
	s.bans.Note(func() logs.Ban {
		key := s.decide.Snapshot().Settings().Engine.TalkerText(b.Rule, []byte(b.Name)).Text
		line := logs.Ban{Rule: b.Rule.Name(), Key: key, Left: b.Left, Times: b.Times, Shadow: b.Rule.Config().Mode == fastlimit.Shadow}
		if _, byAddress := b.Prefix(); byAddress {
			line.Client = key
		}
		return line
	})
}

// SetBans has requests that begin from now on decided by these bans of operators. All else
// stays as it is. It is safe for concurrent use.
func (s *Server) SetBans(b *policy.Bans) {
	s.decide.Update(func(now *decide.Snapshot) *decide.Snapshot { return now.WithBans(b) })
}

// Lists are the allow and deny lists that requests are decided by; nil if there are none.
func (s *Server) Lists() *policy.Lists { return s.decide.Snapshot().Lists() }
