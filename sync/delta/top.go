package delta

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Talker is one of the clients that ask most.
type Talker struct {
	Rule string
	Key  string // as the rule writes it; "?" and a digest if it was not told yet
	// Rate is what it is known to have asked for in the last 5 to 10 s, denied
	// units included, in units/s. Error is what all tables may hide of one
	// client, on average over an epoch: it may have asked for Rate + Error.
	Rate, Error float64
	Nodes       []string // that count it, by name
}

// talkerKey is a client of a rule, by the rule's index.
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
// Rates of a node that was just joined, or was silent, are low for 10 s. It
// reads all mirrors twice, some 100 ns for each slot, one node at a time:
// packets are merged in between.
func (s *State) Top(n int, now time.Duration) []Talker {
	sums := map[talkerKey]uint64{}
	s.each(now, func(_ string, k talkerKey, units uint64, _ []byte) { sums[k] += units })
	top := highest(sums, n)
	found := map[talkerKey]*talker{}
	for i := range top {
		found[top[i].talkerKey] = &top[i]
	}
	s.each(now, func(node string, k talkerKey, _ uint64, name []byte) {
		t := found[k]
		if t == nil {
			return
		}
		if len(t.name) == 0 {
			t.name = slices.Clone(name)
		}
		if !slices.Contains(t.nodes, node) {
			t.nodes = append(t.nodes, node)
		}
	})
	return s.talkers(top, now)
}

// each calls f for what every client asked of every node lately, with the lock
// held.
func (s *State) each(now time.Duration, f func(node string, k talkerKey, units uint64, name []byte)) {
	s.lock(now)
	nodes := slices.Collect(maps.Keys(s.members))
	for i := range s.rules {
		s.eachOwnLocked(i, f)
	}
	s.mu.Unlock()
	for _, node := range nodes {
		s.lock(now)
		if m := s.mirrors[node]; m != nil {
			for i := range m.tables {
				m.tables[i].all(func(_ int, slot *mirrorSlot) {
					if units := slot.marks.since(slot.count + slot.shed); units > 0 {
						f(node, talkerKey{i, slot.pos}, units, slot.name[:slot.nameLen])
					}
				})
			}
		}
		s.mu.Unlock()
	}
}

func (s *State) eachOwnLocked(rule int, f func(node string, k talkerKey, units uint64, name []byte)) {
	var slot sketch.Slot
	r := &s.rules[rule]
	for i := range r.own {
		r.heavy.Read(i, &slot)
		if !slot.Live {
			continue
		}
		if units := r.own[i].recent(&slot); units > 0 {
			f(s.config.Node, talkerKey{rule, slot.Pos}, units, slot.Name[:slot.NameLen])
		}
	}
}

// highest are the n of most units, highest first.
func highest(sums map[talkerKey]uint64, n int) []talker {
	var top []talker
	order := func(a, b talker) int {
		return cmp.Or(cmp.Compare(b.units, a.units), cmp.Compare(a.rule, b.rule), cmp.Compare(a.pos, b.pos))
	}
	for k, units := range sums {
		t := talker{talkerKey: k, units: units}
		if len(top) >= n && (n < 1 || order(t, top[n-1]) > 0) {
			continue
		}
		i, _ := slices.BinarySearchFunc(top, t, order)
		top = slices.Insert(top, i, t)
		top = top[:min(n, len(top))]
	}
	return top
}

func (s *State) talkers(top []talker, now time.Duration) []Talker {
	s.lock(now)
	defer s.mu.Unlock()
	window := max(now-s.marked[0], time.Second).Seconds()
	all := make([]Talker, 0, len(top))
	for i := range top {
		t := &top[i]
		r := &s.rules[t.rule]
		slices.Sort(t.nodes)
		key := fmt.Sprintf("?%016x", t.pos)
		if len(t.name) > 0 {
			key = r.HeavyName(t.name)
		}
		all = append(all, Talker{
			Rule: r.Name(), Key: key, Rate: float64(t.units) / window,
			Error: s.errorLocked(t.rule), Nodes: t.nodes,
		})
	}
	return all
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
