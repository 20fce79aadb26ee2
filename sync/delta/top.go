package delta

import (
	"maps"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/toptalkers"
)

// Top returns the n clients with the highest rates over all nodes, highest first.
// Growth that a node reports beyond believedRate is left out. Top reads all
// mirrors twice (BenchmarkTop) and locks for one node at a time, so that packets
// are merged in between.
func (s *State) Top(n int, now time.Duration) []toptalkers.Talker {
	s.lock(now)
	local, p := s.local, peers{s, s.changes}
	s.mu.Unlock()
	return local.Top(n, now, p)
}

// peers makes the mirrors of members a [toptalkers.Source]. Mirrors of former members are
// left out: their clients' rates are no longer known. All are left out if the rules have
// changed meanwhile.
type peers struct {
	*State
	changes int
}

// Each implements toptalkers.Source.
func (p peers) Each(f func(c *toptalkers.Count)) {
	p.mu.Lock()
	nodes := slices.Collect(maps.Keys(p.members))
	p.mu.Unlock()
	for _, node := range nodes {
		c := toptalkers.Count{Node: node}
		p.mu.Lock()
		if m := p.mirrors[node]; m != nil && p.changes == p.State.changes {
			for i := range m.tables {
				c.Rule = i
				m.tables[i].all(func(_ int, slot *mirrorSlot) {
					if c.Units = slot.all.Since(slot.count + slot.shed); c.Units > 0 {
						c.Pos, c.Denied, c.Name = slot.pos, slot.denied.Since(slot.shed), slot.name[:slot.nameLen]
						f(&c)
					}
				})
			}
		}
		p.mu.Unlock()
	}
}

// Doubt implements toptalkers.Source.
func (p peers) Doubt(rule int) (d toptalkers.Doubt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node := range p.members {
		if m := p.mirrors[node]; m != nil && p.changes == p.State.changes {
			t := &m.tables[rule]
			d.Units += t.hidden + t.skipped.Lately()
			d.Grain = max(d.Grain, t.grain)
		}
	}
	return d
}
