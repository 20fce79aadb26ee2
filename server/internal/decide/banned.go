package decide

import (
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// Expeller gets each request on a connection that was denied because its client is banned. It must not block,
// and is safe for concurrent use.
type Expeller interface{ Expel(b Banned) }

// Banned is the client of such a request.
type Banned struct {
	Conn   *conn.Conn // of the request; its goroutine is the caller's
	Client netip.Addr
	Rule   *fastlimit.Rule // that banned it; nil: an operator did, see [Service.OperatorsBan]
	Prefix netip.Prefix    // that the client is counted by; invalid: the rule counts by more
	Left   time.Duration   // of the ban
	Named  bool            // a header of a trusted proxy named the client
}

// SetExpeller sets what gets banned clients. Call it before the first request.
func (s *Service) SetExpeller(e Expeller) { s.expeller = e }

// expel reports a request that was denied because its client is banned.
func (s *Service) expel(r *requestState) {
	v := &r.verdict
	prefix, _ := r.snap.engine.ClientPrefix(v.Rule, r.request.Client)
	s.expeller.Expel(Banned{
		Conn: r.conn, Client: r.request.Client, Rule: v.Rule, Prefix: prefix, Left: v.Decision.RetryAfter, Named: r.from.Trusted,
	})
}

// OperatorsBan returns the prefix by which operators have banned an address, if any.
func (s *Service) OperatorsBan(a netip.Addr) (p netip.Prefix, ok bool) {
	p, _, ok = s.Snapshot().engine.Bans().Lookup(a, s.clock.now())
	return p, ok
}

// StillBanned reports whether a client with a valid prefix has not been unbanned since, and is still counted
// by that prefix: an override may have come meanwhile.
func (s *Service) StillBanned(b Banned) (ok bool) {
	if b.Rule == nil {
		_, ok = s.OperatorsBan(b.Client)
		return ok
	}
	if p, _ := s.Snapshot().engine.ClientPrefix(b.Rule, b.Client); p != b.Prefix {
		return false
	}
	_, ok = (*engine.Rule)(b.Rule).Banned((*engine.Rule)(b.Rule).AddrKey(b.Client))
	return ok
}

// AllowsSome reports whether an address of a prefix is on the allow list and not banned by operators.
// TrustsSome reports whether one is a trusted proxy.
func (s *Service) AllowsSome(p netip.Prefix) bool {
	return s.Snapshot().engine.AllowsSome(p, s.clock.now())
}

// OverridesSome is [policy.Engine.OverridesSome] of the engine in force.
func (s *Service) OverridesSome(p netip.Prefix) bool { return s.Snapshot().engine.OverridesSome(p) }

// TrustsSome is described at AllowsSome.
func (s *Service) TrustsSome(p netip.Prefix) bool {
	return s.Snapshot().settings.Identity.TrustsSome(p)
}
