package delta

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Talker is one of the clients that ask most.
type Talker struct {
	Rule string
	Key  string // as the rule writes it; "?" and a digest if it was not told yet
	// Rate is what it asked for in the last 5 to 10 s, denied units included,
	// in units/s. The true rate is no less, and no more than Rate + Error but
	// for what is on its way.
	Rate, Error float64
	Nodes       []string // that count it, by name
}

type talkerKey struct {
	rule int
	pos  uint64
}

// talker is a Talker in the making.
type talker struct {
	talkerKey
	units uint64
	name  []byte
	nodes []string
}

// Top returns the n clients of highest rate over all nodes, highest first.
// Rates of a node that was just joined, or was silent, are low for 10 s.
func (s *State) Top(n int, now time.Duration) []Talker {
	s.lock(now)
	defer s.mu.Unlock()
	found := map[talkerKey]*talker{}
	for i := range s.rules {
		s.collectOwnLocked(i, found)
		s.collectMirrorsLocked(i, found)
	}
	all := make([]*talker, 0, len(found))
	for _, t := range found {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *talker) int {
		return cmp.Or(cmp.Compare(b.units, a.units), cmp.Compare(a.rule, b.rule), cmp.Compare(a.pos, b.pos))
	})
	all = all[:max(0, min(n, len(all)))]
	window := max(now-s.marked[0], time.Second).Seconds()
	top := make([]Talker, 0, len(all))
	for _, t := range all {
		r := &s.rules[t.rule]
		slices.Sort(t.nodes)
		key := fmt.Sprintf("?%016x", t.pos)
		if len(t.name) > 0 {
			key = r.HeavyName(t.name)
		}
		top = append(top, Talker{
			Rule: r.Name(), Key: key, Rate: float64(t.units) / window,
			Error: s.errorLocked(t.rule), Nodes: t.nodes,
		})
	}
	return top
}

// errorLocked is what all tables of a rule may hide of one client, in units/s.
func (s *State) errorLocked(rule int) float64 {
	units := float64(s.rules[rule].hides())
	for node := range s.members {
		if m := s.mirrors[node]; m != nil {
			units += float64(m.tables[rule].hidden)
		}
	}
	return units / s.rules[rule].Epoch().Seconds()
}

func (s *State) collectOwnLocked(rule int, found map[talkerKey]*talker) {
	var slot sketch.Slot
	r := &s.rules[rule]
	for i := range r.own {
		r.heavy.Read(i, &slot)
		if !slot.Live {
			continue
		}
		if units := r.own[i].recent(&slot); units > 0 {
			collect(found, talkerKey{rule, slot.Pos}, units, slot.Name[:slot.NameLen], s.config.Node)
		}
	}
}

func (s *State) collectMirrorsLocked(rule int, found map[talkerKey]*talker) {
	for node := range s.members {
		m := s.mirrors[node]
		if m == nil {
			continue
		}
		m.tables[rule].all(func(_ int, slot *mirrorSlot) {
			if units := slot.marks.since(slot.count + slot.shed); units > 0 {
				collect(found, talkerKey{rule, slot.pos}, units, slot.name[:slot.nameLen], node)
			}
		})
	}
}

func collect(found map[talkerKey]*talker, k talkerKey, units uint64, name []byte, node string) {
	t := found[k]
	if t == nil {
		t = &talker{talkerKey: k}
		found[k] = t
	}
	t.units += units
	if len(t.name) == 0 {
		t.name = slices.Clone(name)
	}
	if !slices.Contains(t.nodes, node) {
		t.nodes = append(t.nodes, node)
	}
}
