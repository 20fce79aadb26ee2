package policy

import (
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// The lengths of the prefixes by which addresses are counted if no rule groups them: the
// defaults of [fastlimit.RuleConfig].
const (
	clientBits4 = 32
	clientBits6 = 64
)

// ClientPrefix returns the prefix by which a rule, or a tier of one, counts an address. ok
// is false if the rule counts by more than the address, or by something else, or does not
// limit that client. With a nil rule, if no rule has decided, it returns the address or its
// /64.
//
// For a rule that counts prefixes of another rule's clients it returns the client's own
// prefix if that other rule has overrides: a neighbor with one may not be charged to the
// prefix at all, and must not be refused for being in it.
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

// OverridesSome reports whether a client in a prefix has another limit, or none, or may
// have. It is then not certain that all clients in the prefix would be refused when it is
// banned.
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

// AllowsSome reports whether the allow list admits, or may admit, an address of a prefix at
// a time, whatever operators have banned. Then no client may be refused for being in that
// prefix alone.
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
