package policy

import (
	"errors"
	"net/netip"

	"github.com/gaissmai/bart"
)

// ListVerdict tells whether a list decided.
type ListVerdict uint8

// The verdicts of the allow and deny lists.
const (
	ListNone  ListVerdict = iota // on neither list
	ListAllow                    // never limited
	ListDeny                     // refused without a retry time
)

// lists is one table for both lists, so that the longest prefix of either
// wins. A nil table is empty.
type lists struct {
	table bart.Table[ListVerdict]
}

func newLists(allow, deny []netip.Prefix) (*lists, error) {
	if len(allow)+len(deny) == 0 {
		return nil, nil
	}
	l := new(lists)
	insert := func(name string, prefixes []netip.Prefix, v ListVerdict) (errs error) {
		for _, p := range prefixes {
			n, err := normalPrefix(name, p)
			if err != nil {
				errs = errors.Join(errs, err)
				continue
			}
			l.table.Insert(n, v)
		}
		return errs
	}
	// Deny last, so that it wins over an equal prefix.
	err := errors.Join(insert("Allow", allow, ListAllow), insert("Deny", deny, ListDeny))
	return l, err
}

func (l *lists) lookup(addr netip.Addr) ListVerdict {
	if l == nil {
		return ListNone
	}
	v, _ := l.table.Lookup(addr) // none for an invalid address
	return v
}
