package policy

import (
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// The lengths of the prefixes by which addresses are counted that no rule groups: what
// [fastlimit.RuleConfig] has by default.
const (
	clientBits4 = 32
	clientBits6 = 64
)

// ClientPrefix returns the prefix by which a rule, or a tier of one, counts an address. ok is
// false if it counts by more than the address, or by something else, or does not limit that
// client. With a nil rule, where
// no rule has decided, it is the address or its /64.
//
// Of a rule that counts prefixes of another one's clients it is the client's own where that
// one has overrides: with those a neighbour may not be charged to the prefix at all, and nobody
// may be refused for being in it.
func (e *Engine) ClientPrefix(r *fastlimit.Rule, addr netip.Addr) (p netip.Prefix, ok bool) {
	addr = plain(addr)
	if !identifies(addr) {
		return netip.Prefix{}, false
	}
	k := keyMaker{bits4: clientBits4, bits6: clientBits6}
	if r != nil {
		c := &e.rules[(*engine.Rule)(r).Index()]
		if !c.addrOnly {
			return netip.Prefix{}, false
		}
		if of := &e.rules[c.origin]; c.families != 0 && of.overrides != nil {
			c = of
		}
		if c.overrides != nil && c.find(c.limit.AddrKey(addr), addr) == nil {
			return netip.Prefix{}, false
		}
		k = c.key
	}
	return k.prefix(addr), true
}

// OverridesSome reports whether a client in a prefix has a limit of its own, or none, or may
// have: then it is not sure that those in it are refused whom the prefix was banned for.
func (e *Engine) OverridesSome(p netip.Prefix) bool {
	for i := range e.rules {
		c := &e.rules[i]
		if !c.addrOnly || c.overrides == nil {
			continue
		}
		if p.Bits() < c.key.prefix(p.Addr()).Bits() || c.find(c.limit.AddrKey(p.Addr()), p.Addr()) != c.limit {
			return true
		}
	}
	return false
}

// AllowsSome reports whether the allow list admits, or may admit, an address of a prefix at a
// time, whatever operators have banned: then nobody may be refused for being in that prefix
// alone.
func (e *Engine) AllowsSome(p netip.Prefix, now time.Time) bool {
	if _, longer := e.lists.AllowedWithin(p, 0); longer > 0 {
		return true
	}
	if e.lists == nil {
		return false
	}
	entry, v, ok := e.lists.table.LookupPrefixLPM(p)
	if !ok || v != ListAllow {
		return false
	}
	if e.bans == nil {
		return true
	}
	ban, _, banned := e.bans.around(p, now)
	return !banned || ban.Bits() < entry.Bits()
}

// TrustsSome reports whether an address of a prefix is a trusted proxy.
func (id *Identity) TrustsSome(p netip.Prefix) bool {
	return id.trusted != nil && id.trusted.OverlapsPrefix(p)
}
