package suggest

import (
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// The rule by which clients are judged to be attackers; see the package comment.
const (
	attackFactor = 5   // times what any client outside of the group needs
	attackBurst  = 100 // and at least this
	attackShare  = 10  // at most one client in so many; one in a small crowd
	crowd        = 5   // with fewer clients none stands out
)

// attackers returns how many of the highest needs stand out, given needs in ascending order. It uses the
// lowest gap, so the rest form one crowd.
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

// namesClients reports whether a key distinguishes clients, not just what they ask for.
func namesClients(key []policy.KeyPart) bool {
	return slices.ContainsFunc(key, func(p policy.KeyPart) bool {
		return p.Kind == policy.KeyIP || p.Kind == policy.KeyHeader || p.Kind == policy.KeyCookie
	})
}

// longestDrain is the longest time in which a suggested bucket may drain. Beyond it a limit is a quota: a
// client that has used it up is turned away for hours.
const longestDrain = time.Hour

// best returns the index of the row that leaves a client over its limit the fewest requests within a minute;
// among equals the highest rate, which is the kindest. Rows that drain too slowly are only for tables without
// others.
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
