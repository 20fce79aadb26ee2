package suggest

import (
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// The rule by which clients are judged to be attackers; see the package comment.
const (
	attackFactor = 5   // times what any client outside of the group needs
	attackBurst  = 100 // and no less than this
	attackShare  = 10  // at most one client in so many; one in a small crowd
	crowd        = 5   // of fewer clients none stands out
)

// attackers is how many of the highest needs stand out, for needs in ascending order. It
// takes the lowest gap, so all that it leaves are of one crowd.
func attackers(needs []uint64) int {
	n := len(needs)
	if n < crowd {
		return 0
	}
	for i := n - max(1, n/attackShare); i < n; i++ {
		if needs[i] >= attackBurst && needs[i]/attackFactor >= needs[i-1] {
			return n - i
		}
	}
	return 0
}

// namesClients reports whether a key tells clients apart, and not just what they ask for.
func namesClients(key []policy.KeyPart) bool {
	return slices.ContainsFunc(key, func(p policy.KeyPart) bool {
		return p.Kind == policy.KeyIP || p.Kind == policy.KeyHeader || p.Kind == policy.KeyCookie
	})
}

// longestDrain is the longest time in which a suggested bucket may drain. Beyond, a limit
// is a quota: who has used it up is turned away for hours.
const longestDrain = time.Hour

// best is the index of the row that leaves a client over its limit the fewest requests
// within a minute, of those equal the highest rate, which is the kindest. Rows that drain
// too slowly are for tables that have no others.
func best(rows []Row) int {
	return slices.IndexFunc(rows, func(r Row) bool {
		return !slices.ContainsFunc(rows, func(other Row) bool { return other.better(&r) })
	})
}

func (r *Row) better(than *Row) bool {
	slow, otherSlow := r.drain > longestDrain, than.drain > longestDrain
	switch {
	case slow != otherSlow:
		return otherSlow
	case slow && r.drain != than.drain:
		return r.drain < than.drain
	case r.InAMinute != than.InAMinute:
		return r.InAMinute < than.InAMinute
	}
	return r.pace.unit < than.pace.unit
}
