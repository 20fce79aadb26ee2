package bans

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/heap"
	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/internal/operator"
)

// Who banned a client: Shown.By.
const (
	byOperator = "operator"
	byRule     = "rule"
	byNode     = "node" // another node of the cluster
)

// Shown is a ban as operators see it. Its names are part of the contract.
type Shown struct {
	Key         string   `json:"key"`
	Rule        string   `json:"rule"` // "" for one by an operator
	By          string   `json:"by"`   // rule, operator or node
	SecondsLeft float64  `json:"seconds_left"`
	Times       int      `json:"times"`            // how often in a row
	Kernel      bool     `json:"kernel"`           // the kernel drops packets of the address, or of the prefix's first one
	Shadow      bool     `json:"shadow,omitempty"` // the rule only counts what it would do
	Reason      string   `json:"reason,omitempty"` // of an operator
	Parts       []string `json:"key_parts"`        // of Key; null: one is cut, or is not UTF-8

	first netip.Addr     // of the prefix; invalid: the key is not one
	ban   *fastlimit.Ban // a rule's, whose Key and Parts are not made yet
}

// name orders bans that are otherwise equal.
func (s *Shown) name() string {
	if s.ban != nil {
		return s.ban.Name
	}
	return s.Key
}

// List is the document of GET /v1/bans.
type List struct {
	Bans  []Shown `json:"bans"`  // operators' first, each kind with the longest left first
	Total int     `json:"total"` // of which Bans may be only the first
}

// compare orders two bans in the list.
func compare(a, b *Shown) int {
	ofRule := func(s *Shown) int { return min(len(s.Rule), 1) }
	return cmp.Or(cmp.Compare(ofRule(a), ofRule(b)), cmp.Compare(b.SecondsLeft, a.SecondsLeft), strings.Compare(a.Rule, b.Rule), strings.Compare(a.name(), b.name()))
}

// List returns up to limit bans, of a rule or, if rule is "", of all. The error has a method HTTPStatus.
func (s *Set) List(rule string, limit int) (any, error) {
	on := s.on.Load()
	rules, err := on.named(rule)
	if err != nil {
		return nil, err
	}
	l := List{Bans: []Shown{}}
	last := func(a, b *Shown) bool { return compare(a, b) > 0 } // a heap with the last listed ban on top
	add := func(b Shown) {
		switch l.Total++; {
		case len(l.Bans) < limit:
			l.Bans = heap.Push(l.Bans, b, last)
		case limit > 0 && compare(&b, &l.Bans[0]) < 0:
			l.Bans[0] = b
			heap.Fix(l.Bans, last)
		}
	}
	if rule == "" {
		s.ofOperators(add)
	}
	for _, r := range rules {
		for b := range r.Bans() {
			add(on.shown(&b))
		}
	}
	slices.SortFunc(l.Bans, func(a, b Shown) int { return compare(&a, &b) })
	for i := range l.Bans {
		b := &l.Bans[i]
		on.name(b)
		b.Kernel = s.held(b.first)
	}
	return l, nil
}

// named returns the rule of that name, or all rules if it is "".
func (o *rules) named(name string) ([]*fastlimit.Rule, error) {
	all := o.limiter.Rules()
	if name == "" {
		return all, nil
	}
	var have []string
	for i, r := range all {
		if r.Name() == name {
			return all[i : i+1], nil
		}
		have = append(have, r.Name())
	}
	return nil, operator.NoRule(name, have)
}

// ofOperators calls add for each of the operators' bans.
func (s *Set) ofOperators(add func(Shown)) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, i := range s.info {
		if left := i.until.Sub(now); left > 0 {
			add(shownPrefix(p, left, &i))
		}
	}
}

func shownPrefix(p netip.Prefix, left time.Duration, i *info) Shown {
	text := keytext.Prefix(p)
	return Shown{Key: text, Parts: []string{text}, By: byOperator, SecondsLeft: left.Seconds(), Times: i.times, Reason: i.reason, first: p.Addr()}
}

func (o *rules) shown(b *fastlimit.Ban) Shown {
	p, _ := b.Prefix() // invalid if the key is not a prefix
	by := byRule
	if b.Remote() {
		by = byNode
	}
	return Shown{
		ban: b, Rule: b.Rule.Name(), By: by, SecondsLeft: b.Left.Seconds(), Times: b.Times,
		Shadow: b.Rule.Config().Mode == fastlimit.Shadow, first: p.Addr(),
	}
}

// name makes the text of a client that a rule has banned. It is called only for bans that are shown, as there
// may be a hundred thousand others.
func (o *rules) name(s *Shown) {
	if s.ban == nil {
		return
	}
	text := o.engine.TalkerText(s.ban.Rule, []byte(s.ban.Name))
	s.Key, s.Parts, s.ban = text.Text, text.Parts, nil
}

// held reports whether the kernel drops packets of an address.
func (s *Set) held(a netip.Addr) bool {
	return a.IsValid() && s.node.KernelHolds(a)
}
