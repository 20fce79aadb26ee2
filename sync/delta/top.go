package delta

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Talker is one of the clients that ask most.
type Talker struct {
	Rule string
	Key  string // as the rule writes it; "?" and a digest if it was not told yet
	// Rate is an estimate of what it asked for in the last 5 to 10 s, denied
	// units included, in units/s. The truth is no further from it than Error,
	// but once in a million times, as far as this node has been told: counts
	// on their way, or lost there until they are told again, are not in it.
	// Error is 0 where every client has a slot and few are denied, and large for
	// 10 s after a node was met or was silent: what it has counted meanwhile
	// comes at once, and is in no Rate.
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
// What a node tells beyond Config.MaxRate is in no rate. It
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
		r.talkers.Read(i, &slot)
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
	unsure := make([]doubt, len(s.rules))
	for i := range unsure {
		unsure[i] = s.doubtLocked(i)
	}
	all := make([]Talker, 0, len(top))
	for i := range top {
		t := &top[i]
		r := &s.rules[t.rule]
		slices.Sort(t.nodes)
		key := fmt.Sprintf("?%016x", t.pos)
		if len(t.name) > 0 {
			key = r.TalkerName(t.name)
		}
		all = append(all, Talker{
			Rule: r.Name(), Key: key, Nodes: t.nodes,
			Rate: float64(t.units) / window, Error: unsure[t.rule].of(t.units) / window,
		})
	}
	return all
}

// doubt is what is not known of the clients of a rule.
type doubt struct {
	hidden uint64 // units of one client that all tables together may not tell
	grain  uint64 // of which chance let one be told
}

func (s *State) doubtLocked(rule int) doubt {
	const beforeLast = 1
	r := &s.rules[rule]
	d := doubt{hidden: r.missedSince(beforeLast), grain: r.coarse()}
	d.hidden += slices.Max(r.drops[:beforeLast+1])
	for node := range s.members {
		if m := s.mirrors[node]; m != nil {
			t := &m.tables[rule]
			d.hidden += t.hidden + slices.Max(t.skipped[:beforeLast+1])
			d.grain = max(d.grain, t.grain)
		}
	}
	return d
}

// certainty is L: what chance does worse occurs less than once in e^L times, two
// million, to each side.
const certainty = 14.6

// of is how far the truth may be from units that were told of a client.
//
// Each denied unit was counted by a chance of 1/g for g units, or surely for
// less. With x the sum of what was counted, in g, and y its mean, Chernoff's
// bound for independent values of 0 to 1 is, to either side,
//
//	P <= exp(-(y - x + x·ln(x/y))) <= exp(-L)  where  |y - x| >= L + min(√(L² + 2xL), 2√(xL))
//
// the first by (y-x)²/2y and (x-y)²/(x+y), the second by (√y - √x)², neither of
// which exceeds the exponent.
func (d doubt) of(units uint64) float64 {
	hidden := float64(d.hidden)
	if d.grain <= 1 {
		return hidden
	}
	g := float64(d.grain)
	x := (float64(units) + hidden) / g
	return hidden + g*(certainty+min(math.Sqrt(certainty*certainty+2*x*certainty), 2*math.Sqrt(x*certainty)))
}
