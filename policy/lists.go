package policy

import (
	"errors"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/gaissmai/bart"
)

// ListVerdict says which list decided, if any.
type ListVerdict uint8

// The verdicts of the allow and deny lists, and of the bans next to them.
const (
	ListNone  ListVerdict = iota // on neither list
	ListAllow                    // never limited
	ListDeny                     // refused without a retry time
	ListBan                      // banned by an operator, until Decision.RetryAfter has passed
)

// String returns the name of the list in a configuration file, "none" for ListNone.
func (v ListVerdict) String() string { return nameOf(v, "none", "allow", "deny", "ban") }

// decision returns the decision of a list, or of a ban that lasts for so much longer.
func (v ListVerdict) decision(left time.Duration) fastlimit.Decision {
	if v == ListBan {
		return fastlimit.Decision{Outcome: limit.Outcome{Stage: fastlimit.StageBan}, RetryAfter: left, TimeToEmpty: left}
	}
	return fastlimit.Decision{Outcome: limit.Outcome{Allowed: v != ListDeny, Stage: fastlimit.StageList}, Remaining: fastlimit.RemainingUnknown}
}

// Lists are an allow and a deny list. It is immutable and safe for concurrent use. A nil
// *Lists is empty.
type Lists struct {
	table trie[ListVerdict] // of both lists, so that the longest prefix of either wins
}

// NewLists compiles the two lists; see [Lists.Lookup]. Its error joins a
// [fastlimit.FieldError] for each prefix that is wrong.
func NewLists(allow, deny []netip.Prefix) (*Lists, error) {
	if len(allow)+len(deny) == 0 {
		return nil, nil
	}
	l := &Lists{table: new(bart.Table[ListVerdict])}
	insert := func(name string, prefixes []netip.Prefix, v ListVerdict) (errs error) {
		for _, p := range prefixes {
			n, err := clientPrefix(name, p)
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
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Lookup returns the list that an address is on: the one with the longest prefix that
// contains it, or the deny list if both have that prefix. An IPv4-mapped address is
// looked up as IPv4, and a zone is ignored.
func (l *Lists) Lookup(addr netip.Addr) ListVerdict { return l.lookup(plain(addr)) }

// Lists returns the lists that e uses; nil if there are none.
func (e *Engine) Lists() *Lists { return e.lists }

// WithLists returns an engine with these lists instead of those of e. It shares everything
// else with e, including live overrides; e does not change.
func (e *Engine) WithLists(l *Lists) *Engine {
	next := *e
	next.lists = l
	return &next
}

// around returns the list with the longest prefix that contains all of another one, and the
// length of that prefix.
func (l *Lists) around(p netip.Prefix) (v ListVerdict, bits int) {
	if l == nil {
		return ListNone, -1
	}
	entry, v, ok := l.table.LookupPrefixLPM(p)
	if !ok {
		return ListNone, -1
	}
	return v, entry.Bits()
}

// AllowedWithin returns up to most entries of the allow list that lie within a prefix and
// are longer, and their total number. Clients on them stay allowed when the prefix is
// banned, unless a longer entry of the deny list contains them.
func (l *Lists) AllowedWithin(p netip.Prefix, most int) (some []netip.Prefix, all int) {
	if l == nil {
		return nil, 0
	}
	for entry, v := range l.table.Subnets(p) {
		if v != ListAllow || entry.Bits() == p.Bits() {
			continue
		}
		if all++; len(some) < most {
			some = append(some, entry)
		}
	}
	return some, all
}

func (l *Lists) lookup(plainAddr netip.Addr) ListVerdict {
	if l == nil {
		return ListNone
	}
	v, _ := l.table.Lookup(plainAddr) // ListNone for the invalid address
	return v
}
