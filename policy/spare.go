package policy

import (
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
)

// The lengths of the prefixes by which addresses are counted that no rule groups: what
// [fastlimit.RuleConfig] has by default.
const (
	clientBits4 = 32
	clientBits6 = 64
)

// ClientPrefix returns the prefix by which a rule, or a tier of one, counts an address. ok is
// false if it counts by more than the address, or by something else. With a nil rule, where
// no rule has decided, it is the address or its /64.
func (e *Engine) ClientPrefix(r *fastlimit.Rule, addr netip.Addr) (p netip.Prefix, ok bool) {
	addr = plain(addr)
	if !identifies(addr) {
		return netip.Prefix{}, false
	}
	k := keyMaker{bits4: clientBits4, bits6: clientBits6}
	if r != nil {
		if c := &e.rules[r.Index()]; c.addrOnly {
			k = c.key
		} else {
			return netip.Prefix{}, false
		}
	}
	return k.prefix(addr), true
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
