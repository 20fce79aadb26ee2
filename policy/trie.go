package policy

import (
	"iter"
	"net/netip"

	"github.com/gaissmai/bart"
)

// trie is a [bart.Table]: values by prefixes of addresses. It is an interface because a
// generic type in a field is compiled again, with all of its methods, in each package that
// reaches the field: 1,400 functions and 3 s for one that imports policy.
type trie[V any] interface {
	Insert(p netip.Prefix, v V)
	Lookup(addr netip.Addr) (V, bool)
	LookupPrefixLPM(p netip.Prefix) (longest netip.Prefix, v V, ok bool)
	Subnets(p netip.Prefix) iter.Seq2[netip.Prefix, V]
	All() iter.Seq2[netip.Prefix, V]
	Size() int
}

// addrSet is a [bart.Lite], likewise.
type addrSet interface {
	Insert(p netip.Prefix)
	Contains(addr netip.Addr) bool
	OverlapsPrefix(p netip.Prefix) bool
}

var (
	_ addrSet   = (*bart.Lite)(nil)
	_ trie[int] = (*bart.Table[int])(nil)
)
