package server

import (
	"net/netip"
	"slices"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/decide"
	"github.com/fastlimit/fastlimit/server/internal/expel"
	"github.com/fastlimit/fastlimit/server/internal/logs"
)

// Banned logs a ban that a rule has begun: call it from the limiter's OnBan. It does not block, and is safe
// for concurrent use.
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

// Protects says why an operator probably does not mean to ban a prefix: it has an address of this machine, of
// its gateways, or of a proxy for others. Otherwise it is "". It is safe for concurrent use.
func (s *Server) Protects(p netip.Prefix) string {
	c := s.config()
	if m, err := c.machine(); err == nil {
		switch m.Has(p) {
		case expel.Own:
			return "is, or contains, an address of this machine"
		case expel.Gateway:
			return "has the address of a gateway of this machine"
		}
	}
	for i := range c.Listeners {
		if slices.ContainsFunc(c.Listeners[i].ProxyProtocol, p.Overlaps) {
			return "has an address that sends PROXY headers for others"
		}
	}
	if s.decide.TrustsSome(p) {
		return "has the address of a trusted proxy"
	}
	if all := s.decide.UntrustedProxies(); slices.ContainsFunc(all, p.Contains) {
		return "has the address of a proxy, through which others come: it is not in trusted_proxies"
	}
	return ""
}

// SetBans makes new requests be decided by these bans of operators. Everything else stays. It is safe for
// concurrent use.
func (s *Server) SetBans(b *policy.Bans) {
	s.decide.Update(func(now *decide.Snapshot) *decide.Snapshot { return now.WithBans(b) })
}

// Lists returns the allow and deny lists that decide requests, or nil.
func (s *Server) Lists() *policy.Lists { return s.decide.Snapshot().Lists() }
