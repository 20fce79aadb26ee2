package policy

import (
	"net/netip"

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

// AllowsSome reports whether the allow list has, or may have, an address of a prefix: then
// nobody may be refused for being in that prefix alone.
func (l *Lists) AllowsSome(p netip.Prefix) bool {
	if l == nil {
		return false
	}
	if v, ok := l.table.LookupPrefix(p); ok && v == ListAllow {
		return true
	}
	for _, v := range l.table.Subnets(p) {
		if v == ListAllow {
			return true
		}
	}
	return false
}

// TrustsSome reports whether an address of a prefix is a trusted proxy.
func (id *Identity) TrustsSome(p netip.Prefix) bool {
	return id.trusted != nil && id.trusted.OverlapsPrefix(p)
}
