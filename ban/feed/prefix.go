package feed

import "net/netip"

// The widest prefixes that a kernel is given. A wider one could drop half the internet by
// one mistake, and would cover the addresses by which a writer monitors its sets.
const (
	WidestV4 = 8
	WidestV6 = 16
)

// MaxLengths is how many prefix lengths a feed can use in its life, of IPv4 and IPv6
// together. Each is a set in the kernel, and a lookup for each packet of a client that is
// not banned.
const MaxLengths = 24

const wideBy = 128 - 32 // added to the length of an IPv4 prefix when it is mapped to IPv6

// canonical returns the one form of a prefix: masked, without a zone, IPv4 as itself.
func canonical(p netip.Prefix) (netip.Prefix, bool) {
	if !p.IsValid() {
		return p, false
	}
	a, bits := p.Addr(), p.Bits()
	if a.Is4In6() && bits >= wideBy {
		a, bits = a.Unmap(), bits-wideBy
	}
	return netip.PrefixFrom(a, bits).Masked(), true
}

func wide(p netip.Prefix) bool {
	if p.Addr().Is4() {
		return p.Bits() < WidestV4
	}
	return p.Bits() < WidestV6
}

// length counts the bans of a prefix length.
type length struct {
	bits, bans int
}

// lengths are the prefix lengths in use. A length that was in use stays, since its set in
// the kernel does.
type lengths struct {
	v4, v6 []length
}

func (l *lengths) of(a netip.Addr) *[]length {
	if a.Is4() {
		return &l.v4
	}
	return &l.v6
}

// add adds n to the bans of a length. It returns false if there is no room for the length.
func (l *lengths) add(p netip.Prefix, n int) bool {
	in := l.of(p.Addr())
	for i := range *in {
		if (*in)[i].bits == p.Bits() {
			(*in)[i].bans += n
			return true
		}
	}
	if len(l.v4)+len(l.v6) >= MaxLengths {
		return false
	}
	*in = append(*in, length{p.Bits(), n})
	return true
}
