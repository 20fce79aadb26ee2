package bans

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Who has banned a client: Shown.By.
const (
	byOperator = "operator"
	byRule     = "rule"
	byNode     = "node" // another one of the cluster
)

// Shown is a ban as operators see it. Its names are part of the contract.
type Shown struct {
	Key         string  `json:"key"`
	Rule        string  `json:"rule"` // "" for one by an operator
	By          string  `json:"by"`   // rule, operator or node
	SecondsLeft float64 `json:"seconds_left"`
	Times       int     `json:"times"`  // how often in a row
	Kernel      bool    `json:"kernel"` // the kernel drops packets of the address, or of the first of the prefix
}

// List is the document of GET /v1/bans.
type List struct {
	Bans  []Shown `json:"bans"`  // of operators first, each kind with the longest left first
	Total int     `json:"total"` // of which Bans may be the first
}

// List returns up to limit bans: of a rule, or all if rule is "". The error has a method
// HTTPStatus.
func (s *Set) List(rule string, limit int) (any, error) {
	var all []Shown
	if rule == "" {
		all = s.ofOperators()
	}
	slices.SortFunc(all, func(a, b Shown) int {
		return cmp.Or(cmp.Compare(b.SecondsLeft, a.SecondsLeft), cmp.Compare(a.Key, b.Key))
	})
	return List{Bans: append([]Shown{}, all[:min(limit, len(all))]...), Total: len(all)}, nil
}

// ofOperators are the operators' bans.
func (s *Set) ofOperators() (all []Shown) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, i := range s.info {
		if left := i.until.Sub(now); left > 0 {
			all = append(all, s.byOperator(p, left, i.times))
		}
	}
	return all
}

func (s *Set) byOperator(p netip.Prefix, left time.Duration, times int) Shown {
	return Shown{Key: prefixText(p), By: byOperator, SecondsLeft: left.Seconds(), Times: times, Kernel: s.held(p.Addr())}
}

// held reports whether the kernel drops packets of an address.
func (s *Set) held(a netip.Addr) bool { return s.config.Kernel != nil && s.config.Kernel.Holds(a) }
