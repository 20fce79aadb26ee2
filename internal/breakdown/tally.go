package breakdown

import (
	"cmp"
	"hash/maphash"
	"slices"
)

// seed is secret, so that nobody can make two groups collide.
var seed = maphash.MakeSeed()

// Tally counts requests. The zero value has none. It is not safe for concurrent use.
type Tally struct {
	total  [kinds]uint64 // requests that belong to a group
	tables [len(levels)]table
	name   []byte // of the group being looked up
}

// Add counts a request as units requests. Without a status it is in no group by status.
func (t *Tally) Add(q *Request, units uint64) {
	for i := range levels {
		t.add(i, q, units)
	}
}

// answered adds the status of a request that was counted without one.
func (t *Tally) answered(status int, units uint64) {
	for i := range levels {
		if levels[i].by == Status {
			t.add(i, &Request{Status: status}, units)
		}
	}
}

func (t *Tally) add(i int, q *Request, units uint64) {
	l := &levels[i]
	t.name = l.key(t.name[:0], *q) // by value: with a pointer each request would be garbage
	key := cut(t.name)
	if i == 0 || levels[i-1].by != l.by { // the finest level, which has every request
		if len(key) == 0 {
			return
		}
		t.total[l.by] += units
	}
	if len(key) > 0 {
		t.tables[i].add(maphash.Bytes(seed, key), key, units, q.Denied)
	}
}

// copyOf copies the tables of one By.
func (t *Tally) copyOf(by By) *Tally {
	c := &Tally{total: t.total}
	first, last := tablesOf(by)
	copy(c.tables[first:last+1], t.tables[first:last+1])
	return c
}

// Units is the least number of requests in a group of a level, shown or not.
func (t *Tally) Units(by By, level int, name string) uint64 {
	first, _ := tablesOf(by)
	return sum(first+level, []*Tally{t})[name].Units
}

// Total is how many requests belong to a group.
func (t *Tally) Total(by By) uint64 { return t.total[by] }

// Reset forgets all requests.
func (t *Tally) Reset() {
	t.total = [kinds]uint64{}
	for i := range t.tables {
		t.tables[i].reset()
	}
}

// Group is a group of requests.
type Group struct {
	Name   string
	Units  uint64 // requests; a lower bound
	Error  uint64 // there are no more than Units + Error
	Denied uint64 // of Units
	Level  int    // 0: one client or path; more: a network or folder of several
}

// Text is the name for people. A cut name ends with an ellipsis.
func (g *Group) Text() string {
	if len(g.Name) == longest {
		return g.Name + "…"
	}
	return g.Name
}

// Groups are the groups of the requests of several tallies, the largest first. No request is in two of them.
// A part that is at least half of its group, or of the group's rest, is shown separately; what is left of the
// group is shown instead of its other parts.
func Groups(by By, of ...*Tally) (shown []Group) {
	first, last := tablesOf(by)
	var s selection
	for i := last; i >= first; i-- {
		s.taken[i], s.apart[i] = map[string]bool{}, map[string]bool{}
	}
	for i := last; i >= first; i-- {
		parts := map[string][]Group{}
		if i > first {
			for _, part := range sum(i-1, of) {
				in := levels[i-1].parent(part.Name)
				parts[in] = append(parts[in], part)
			}
		}
		for _, g := range sum(i, of) {
			if s.covers(i, last, g.Name) {
				continue
			}
			if g.Level = i - first; i > first && !s.leave(&g, i, parts[g.Name]) {
				continue
			}
			shown, s.taken[i][g.Name] = append(shown, g), true
		}
	}
	slices.SortFunc(shown, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Units, a.Units), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Name, b.Name))
	})
	return shown
}

// selection is what is shown, by level.
type selection struct {
	taken [len(levels)]map[string]bool
	apart [len(levels)]map[string]bool // not shown within their own group
}

// covers reports whether a group of a level is shown within a larger one.
func (s *selection) covers(level, last int, name string) bool {
	for ; level < last && !s.apart[level][name]; level++ {
		if name = levels[level].parent(name); s.taken[level+1][name] {
			return true
		}
	}
	return false
}

// leave takes the parts off g that are half of it, or of its rest. It reports whether anything is left.
func (s *selection) leave(g *Group, level int, parts []Group) bool {
	slices.SortFunc(parts, func(a, b Group) int { return cmp.Or(cmp.Compare(b.Units, a.Units), cmp.Compare(a.Name, b.Name)) })
	most := g.Units + g.Error
	for _, p := range parts {
		if 2*p.Units < g.Units {
			break
		}
		s.apart[level-1][p.Name] = true
		g.Units -= min(g.Units, p.Units+p.Error)
		g.Denied -= min(g.Denied, p.Denied+p.Error)
		most -= min(most, p.Units)
	}
	g.Denied = min(g.Denied, g.Units)
	g.Error = most - min(most, g.Units)
	return g.Units > 0
}

// tablesOf returns the first and last level of a By.
func tablesOf(by By) (first, last int) {
	first = slices.IndexFunc(levels[:], func(l level) bool { return l.by == by })
	for last = first; levels[last].parent != nil; last++ {
	}
	return first, last
}

// sum adds up the groups of a level.
func sum(i int, of []*Tally) map[string]Group {
	all := map[string]Group{}
	hidden := uint64(0)
	for _, t := range of {
		hidden += t.tables[i].hidden()
	}
	for _, tally := range of {
		t := &tally.tables[i]
		missed := t.hidden()
		for s := range t.used {
			text := string(t.names[s].text[:t.names[s].size])
			g, ok := all[text]
			if !ok {
				g = Group{Name: text, Error: hidden}
			}
			g.Units += t.counts[s] - t.extra[s]
			g.Denied += t.denied[s]
			g.Error -= missed - t.extra[s] // this table hides no more of it than the slot had
			all[text] = g
		}
	}
	return all
}
