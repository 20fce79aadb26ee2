package conn

import "slices"

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
// serves an eighth of its size: a connection that has changed its phase since
// then is passed by. So an eviction costs 8·log n steps (amortized), and who has
// been denied or has become idle since the ranking may go an eighth too late.
type group struct {
	kind    groupKind
	members []*Conn

	ranked []ranked // those who may go, in no order
	order  []uint64 // the same as numbers: class, age, place in ranked; the next to go is the last
	tick   uint32   // in which it was made
	asked  int      // how often since then
	none   bool     // it was empty when it was made

	rankings int // made, for a test
}

// ranked is a connection as it was when it was ranked.
type ranked struct {
	conn  *Conn
	since uint64
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
		if age > 1 { // a whole tick: it is stuck
			return classWriting
		}
	}
	return classNone
}

func (g *group) add(c *Conn) {
	c.places[g.kind] = len(g.members)
	g.members = append(g.members, c)
}

// remove reports whether c was in the group.
func (g *group) remove(c *Conn) bool {
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
func (g *group) victim(tick uint32) (*Conn, phase) {
	if g.asked++; g.asked >= len(g.members)/8 || g.tick != tick {
		g.rank(tick)
	}
	c, p := g.next()
	// Who ranked has gone or gone on. If nobody did, another look is not worth it
	// so soon: it would be one for each connection in a flood.
	if c == nil && !g.none {
		g.rank(tick)
		c, p = g.next()
	}
	return c, p
}

// next takes from the ranking until there is one that has not moved on.
func (g *group) next() (*Conn, phase) {
	for n := len(g.order); n > 0; n = len(g.order) {
		at := g.order[n-1] & placeMask
		g.order = g.order[:n-1]
		r := g.ranked[at]
		g.ranked[at] = ranked{} // it may have ended
		if r.conn.places[g.kind] >= 0 && r.conn.since.Load() == r.since {
			return r.conn, phase(r.since >> 32)
		}
	}
	return nil, 0
}

// The numbers of a ranking: sorting those takes a quarter of the time that structs take.
const (
	placeBits = 28 // more than there can be descriptors
	placeMask = 1<<placeBits - 1
	ageBits   = 32
)

// rank orders those who may go.
func (g *group) rank(tick uint32) {
	g.rankings++
	clear(g.ranked)
	g.ranked, g.order, g.tick, g.asked = g.ranked[:0], g.order[:0], tick, 0
	for _, c := range g.members {
		since := c.since.Load()
		age := tick - uint32(since)
		if int32(age) < 0 {
			age = 0 // it began in the tick that is about to begin
		}
		if k := classify(phase(since>>32), age); k != classNone {
			g.order = append(g.order, uint64(classNone-k)<<(placeBits+ageBits)|uint64(age)<<placeBits|uint64(len(g.ranked)))
			g.ranked = append(g.ranked, ranked{c, since})
		}
	}
	slices.Sort(g.order)
	g.none = len(g.order) == 0
}
