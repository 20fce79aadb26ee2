package toptalkers

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Source supplies counts from elsewhere for the same rules: from the other nodes of
// a cluster. Rules are numbered as in [Ranking.Rules].
type Source interface {
	// Each calls f with the units that each client sent to each node since the mark before
	// the last one. The arguments of f are borrowed. Top calls Each twice; the second call
	// may include later units.
	Each(f func(c *Count))
	// Doubt bounds what Each leaves out.
	Doubt(rule int) Doubt
}

// Count is what one node has counted for one client.
type Count struct {
	Node   string
	Rule   int
	Pos    uint64 // sketch.Digest.Pos
	Units  uint64
	Denied uint64 // part of Units: denied by the bucket table or a ban
	Name   []byte // empty if unknown
}

// client is a client of a rule.
type client struct {
	rule int
	pos  uint64 // sketch.Digest.Pos
}

// candidate is a client among the top n, before its name and nodes are known.
type candidate struct {
	client
	sum
	name  []byte
	nodes []string
}

// sum is what all nodes have counted for a client.
type sum struct{ units, denied uint64 }

// Top returns the n clients with the highest rates, highest first; with sources, a
// rate is the sum over this node and all of them. Top reads all tables twice, first
// for the sums and then for names and nodes of the top n, so that it need not keep
// those of every client. It locks out Tick during one reading (BenchmarkTop in
// package delta).
func (r *Ranking) Top(n int, now time.Duration, others ...Source) []Talker {
	sums := map[client]sum{}
	r.each(others, func(c *Count) {
		s := sums[client{c.Rule, c.Pos}]
		sums[client{c.Rule, c.Pos}] = sum{s.units + c.Units, s.denied + c.Denied}
	})
	top := r.highest(sums, n)
	found := map[client]*candidate{}
	for i := range top {
		found[top[i].client] = &top[i]
	}
	r.each(others, func(n *Count) {
		c := found[client{n.Rule, n.Pos}]
		if c == nil {
			return
		}
		if len(c.name) == 0 {
			c.name = slices.Clone(n.Name)
		}
		if !slices.Contains(c.nodes, n.Node) {
			c.nodes = append(c.nodes, n.Node)
		}
	})
	return r.talkers(top, others, now)
}

// each calls f with the recent units of each client, by node.
func (r *Ranking) each(others []Source, f func(c *Count)) {
	r.mu.Lock()
	for i := range r.tables {
		r.eachLocked(i, f)
	}
	r.mu.Unlock()
	for _, o := range others {
		o.Each(f)
	}
}

func (r *Ranking) eachLocked(rule int, f func(c *Count)) {
	var s sketch.Slot
	t, c := &r.tables[rule], Count{Node: r.node, Rule: rule}
	for i := range t.slots {
		t.talkers.Read(i, &s)
		if !s.Live {
			continue
		}
		if c.Units, c.Denied = t.recent(i, &s); c.Units > 0 {
			c.Pos, c.Name = s.Pos, s.Name[:s.NameLen]
			f(&c)
		}
	}
}

// highest returns the n clients with the most units, highest first; ties are broken
// by rule and position, so that the order does not depend on the map's.
func (r *Ranking) highest(sums map[client]sum, n int) []candidate {
	var top []candidate
	units := func(c candidate) float64 { return float64(c.units) / r.scale(c.rule) }
	order := func(a, b candidate) int {
		return cmp.Or(cmp.Compare(units(b), units(a)), cmp.Compare(a.rule, b.rule), cmp.Compare(a.pos, b.pos))
	}
	for k, s := range sums {
		c := candidate{client: k, sum: s}
		if len(top) >= n && (n < 1 || order(c, top[n-1]) > 0) {
			continue
		}
		i, _ := slices.BinarySearchFunc(top, c, order)
		top = slices.Insert(top, i, c)
		top = top[:min(n, len(top))]
	}
	return top
}

// scale returns how many of a rule's counts make a unit.
func (r *Ranking) scale(rule int) float64 {
	return float64(max(1, r.tables[rule].rule.TopTalkers().Unit))
}

// talkers turns units into rates over the time since the mark before the last one,
// and adds errors.
func (r *Ranking) talkers(top []candidate, others []Source, now time.Duration) []Talker {
	r.mu.Lock()
	window := max(now-r.marked[0], time.Second).Seconds()
	r.mu.Unlock()
	doubts := make([]Doubt, len(r.tables))
	for i := range doubts {
		doubts[i] = r.Doubt(i)
		for _, o := range others {
			doubts[i] = doubts[i].and(o.Doubt(i))
		}
	}
	all := make([]Talker, 0, len(top))
	for i := range top {
		c := &top[i]
		rule := r.tables[c.rule].rule.TopTalkers()
		slices.Sort(c.nodes)
		key := fmt.Sprintf("?%016x", c.pos)
		if len(c.name) > 0 {
			key = rule.Text(c.name)
		}
		all = append(all, Talker{
			Rule: rule.Rule, Key: key, Name: string(c.name), Nodes: c.nodes,
			Rate: float64(c.units) / window / r.scale(c.rule), Denied: float64(c.denied) / window / r.scale(c.rule),
			Error: doubts[c.rule].Of(c.units) / window / r.scale(c.rule),
		})
	}
	return all
}

// Doubt bounds what the table of a rule leaves out of the window of Top, which
// starts at the mark before the last one.
func (r *Ranking) Doubt(rule int) Doubt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tables[rule].doubt()
}

// LongDoubt is Doubt over the last four marks, for other nodes: that time covers
// their windows, whenever they set their own marks.
func (r *Ranking) LongDoubt(rule int) Doubt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tables[rule].longDoubt()
}
