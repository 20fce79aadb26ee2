package policy

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/gaissmai/bart"
)

// Bans are prefixes that operators have banned, each until a time of [time.Now], whatever
// clock a limiter has. It is immutable and safe for concurrent use; a change makes a new
// value, which shares all but a path with the old one. A nil *Bans has none. A ban that has
// ended has no effect, whether it is still there or not.
type Bans struct {
	until trie[time.Time] // a *bart.Table
}

// The shortest prefixes that can be banned: a typing mistake must not refuse half of the
// world. To ban more, write several, or use the deny list.
const (
	minBanBits4 = 8
	minBanBits6 = 16
)

// CheckBan returns the form in which a prefix is banned: IPv4 instead of IPv4-mapped IPv6.
// Its error is a [fastlimit.FieldError] for a prefix that has host bits set, or that is so
// short that a mistake is likelier than an attack from all of it.
func CheckBan(p netip.Prefix) (netip.Prefix, error) {
	n, err := clientPrefix("Key", p)
	if err != nil {
		return n, err
	}
	if given := plain(p.Addr()); n.Addr() != given {
		return n, invalid("Key", fmt.Sprintf("write %v, or %v for the address alone", n, given), "%v has bits set beyond its length", p)
	}
	least, example := minBanBits4, "192.0.2.0/24"
	if n.Addr().Is6() {
		least, example = minBanBits6, "2001:db8::/32"
	}
	if n.Bits() < least {
		return n, invalid("Key", fmt.Sprintf("ban at least a /%d, for example %s, or write the prefix into deny", least, example),
			"%v is shorter than a /%d, and would refuse too many", n, least)
	}
	return n, nil
}

// ParseBan reads an address or a prefix and checks it as [CheckBan] does.
func ParseBan(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err == nil {
		return CheckBan(p)
	}
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return netip.Prefix{}, invalid("Key", "write for example 192.0.2.7, 192.0.2.0/24 or 2001:db8::/48", "%.60q is neither an address nor a prefix", text)
	case addr.Zone() != "":
		return netip.Prefix{}, invalid("Key", fmt.Sprintf("write %v", addr.WithZone("")), "%.60q has a zone, which clients are known without", text)
	}
	return CheckBan(netip.PrefixFrom(addr, addr.BitLen()))
}

// With returns bans to which this one is added, or in which it replaces one of the same
// prefix. The prefix must be a result of [CheckBan].
func (b *Bans) With(p netip.Prefix, until time.Time) *Bans {
	t := new(bart.Table[time.Time])
	if b != nil {
		t = b.until.(*bart.Table[time.Time])
	}
	return &Bans{t.InsertPersist(p, until)}
}

// Without returns bans without the one of this prefix; nil if none is left.
func (b *Bans) Without(p netip.Prefix) *Bans {
	if b == nil {
		return nil
	}
	next := b.until.(*bart.Table[time.Time]).DeletePersist(p)
	if next.Size() == 0 {
		return nil
	}
	return &Bans{next}
}

// Len returns the number of bans, including those that have ended.
func (b *Bans) Len() int {
	if b == nil {
		return 0
	}
	return b.until.Size()
}

// Running returns the number of bans that have not ended by now.
func (b *Bans) Running(now time.Time) (n int) {
	if b == nil {
		return 0
	}
	for _, until := range b.until.All() {
		if until.After(now) {
			n++
		}
	}
	return n
}

// Around returns the ban with the longest prefix that contains all of another one, among
// those that have not ended by now.
func (b *Bans) Around(p netip.Prefix, now time.Time) (around netip.Prefix, until time.Time, ok bool) {
	if b == nil {
		return around, until, false
	}
	return b.around(p, now)
}

// Lookup returns the ban with the longest prefix that contains an address, among those that
// have not ended by now. An IPv4-mapped address is looked up as IPv4, and a zone is
// ignored.
func (b *Bans) Lookup(addr netip.Addr, now time.Time) (p netip.Prefix, until time.Time, ok bool) {
	if b == nil {
		return p, until, false
	}
	return b.lookup(plain(addr), now)
}

func (b *Bans) lookup(plainAddr netip.Addr, now time.Time) (p netip.Prefix, until time.Time, ok bool) {
	return b.around(netip.PrefixFrom(plainAddr, plainAddr.BitLen()), now)
}

// around is Around for a prefix in the form of [CheckBan].
func (b *Bans) around(all netip.Prefix, now time.Time) (p netip.Prefix, until time.Time, ok bool) {
	// Under a ban that has ended there may be one of a shorter prefix that has not.
	for bits := all.Bits(); bits >= 0; bits = p.Bits() - 1 {
		p, until, ok = b.until.LookupPrefixLPM(netip.PrefixFrom(all.Addr(), bits))
		if !ok {
			return p, until, false
		}
		if until.After(now) {
			return p, until, true
		}
	}
	return p, until, false
}

// Bans returns the operators' bans that e uses; nil if there are none.
func (e *Engine) Bans() *Bans { return e.bans }

// WithBans returns an engine with these bans instead of those of e. It shares everything
// else with e, which does not change.
func (e *Engine) WithBans(b *Bans) *Engine {
	next := *e
	next.bans = b
	return &next
}

// banned reports whether an operator's ban decides on the client of s, and records how much
// longer it lasts. An entry of a list decides instead if its prefix is longer.
func (e *Engine) banned(s *Scratch, now time.Time) bool {
	if now.IsZero() {
		now = time.Now()
	}
	p, until, ok := e.bans.lookup(s.client, now)
	if _, bits := e.lists.around(netip.PrefixFrom(s.client, s.client.BitLen())); !ok || bits > p.Bits() {
		return false
	}
	s.banned = until.Sub(now)
	return true
}
