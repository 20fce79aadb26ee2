package server

import (
	"cmp"
	"slices"
)

// groupKind is a set of connections that has a bound.
type groupKind uint8

const (
	groupAll   groupKind = iota // that count against max
	groupPeer                   // of one client address
	groupLarge                  // whose head is with the larger reader
	groupGone                   // that were dismissed to make room, and have not ended yet
	groupKinds
)

// group is a set of open connections. Guarded by conns.mu.
//
// Which of them was idle longest is known to nobody: a request notes its phase
// without a lock. So where one has to go, the group is ranked, and the ranking
// serves for the evictions to come: a connection that has changed its phase
// since then is passed by, and one that was not ranked has begun to wait later.
// Every entry of a ranking is used up by an eviction or by a request, so an
// eviction costs O(1) (amortized, n·log n for n of them).
type group struct {
	kind    groupKind
	members []*conn

	ranking []ranked // the next to go is the last
	turn    uint32   // in which it was made
	dry     int      // evictions that failed since a ranking was empty
}

// ranked is a connection as it was when it was ranked.
type ranked struct {
	conn  *conn
	since uint64
	class class
	age   uint32
}

// class says who goes first.
type class uint8

const (
	classLingering class = iota // has its last answer
	classDenied                 // waits, and was denied
	classWaiting                // waits: it costs its client a new connection at most
	classReading                // is in the middle of a request, the oldest first
	classWriting                // does not take its answer
	classNone                   // stays
)

func classify(p phase, age uint32) class {
	switch p {
	case lingering:
		return classLingering
	case idleDenied:
		return classDenied
	case fresh, idle:
		return classWaiting
	case reading, body:
		return classReading
	case writing:
		if age > 1 { // a whole turn: it is stuck
			return classWriting
		}
	}
	return classNone
}

func (g *group) add(c *conn) {
	c.places[g.kind] = len(g.members)
	g.members = append(g.members, c)
}

// remove reports whether c was in the group.
func (g *group) remove(c *conn) bool {
	at := c.places[g.kind]
	if at < 0 {
		return false
	}
	last := len(g.members) - 1
	moved := g.members[last]
	g.members[at], g.members[last] = moved, nil
	g.members = g.members[:last]
	moved.places[g.kind], c.places[g.kind] = at, -1
	return true
}

// victim returns the connection that goes first, with its phase; nil if all
// must stay.
func (g *group) victim(turn uint32) (*conn, phase) {
	for range 3 {
		for n := len(g.ranking); n > 0; n-- {
			r := g.ranking[n-1]
			if r.class > classDenied && g.turn != turn {
				break // somebody may have been denied since
			}
			g.ranking[n-1] = ranked{}
			g.ranking = g.ranking[:n-1]
			if r.conn.places[g.kind] >= 0 && r.conn.since.Load() == r.since {
				return r.conn, phase(r.since >> 32)
			}
		}
		if !g.rank(turn) {
			return nil, 0
		}
	}
	return nil, 0
}

// rank orders the members. It fails where nobody may go; if that was so the last
// time it looks again only after a share of attempts, for it looks at all.
func (g *group) rank(turn uint32) bool {
	if g.dry > 0 && g.turn == turn && g.dry < len(g.members)/64 {
		g.dry++
		return false
	}
	clear(g.ranking)
	g.ranking, g.turn, g.dry = g.ranking[:0], turn, 0
	for _, c := range g.members {
		since := c.since.Load()
		age := turn - uint32(since)
		if int32(age) < 0 {
			age = 0 // it began in the turn that is about to begin
		}
		if k := classify(phase(since>>32), age); k != classNone {
			g.ranking = append(g.ranking, ranked{c, since, k, age})
		}
	}
	slices.SortFunc(g.ranking, func(a, b ranked) int {
		return cmp.Or(-cmp.Compare(a.class, b.class), cmp.Compare(a.age, b.age))
	})
	if len(g.ranking) == 0 {
		g.dry = 1
		return false
	}
	return true
}
