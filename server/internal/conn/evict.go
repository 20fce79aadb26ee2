package conn

import (
	"net/netip"
	"slices"
)

// groupKind is a kind of set of connections, each with its own bound.
type groupKind uint8

const (
	groupAll    groupKind = iota // all that count against Limits.Max
	groupPeer                    // of one client address
	groupLarge                   // with the larger reader
	groupGone                    // dismissed to make room, not closed yet
	groupStream                  // of one Session
	groupKinds
)

// entry is a connection's state in Conns. Guarded by conns.mu.
type entry struct {
	session *Session          // its streams; nil: it speaks HTTP/1
	places  [groupKinds]int32 // index in each group; -1: not a member
	client  netip.Addr        // the client that PerClient bounds; invalid: none
	peer    *group            // connections of client
	noted   since             // as last seen by the drain
	looked  since             // as last seen by lookAtQuiet
}

// clear takes a new connection out of all groups.
func (e *entry) clear() {
	for i := range e.places {
		e.places[i] = -1
	}
}

func (e *entry) in(g groupKind) bool { return e.places[g] >= 0 }

// streams returns a connection's streams; none if it speaks HTTP/1.
func (e *entry) streams() []*Conn {
	if e.session == nil {
		return nil
	}
	return e.session.streams.members
}

// group is a set of open connections. Guarded by conns.mu.
//
// It keeps no order of idleness, since requests record their phase without a lock. When a connection has to
// go, the group is ranked, and the ranking serves an eighth of the group's size in evictions; connections
// whose phase has changed since are skipped. So an eviction costs an amortized 8·log n steps, and a
// connection that was denied or became idle after the ranking may go that much later than it should.
type group struct {
	kind    groupKind
	members []*Conn
	streams int // of a peer: in progress on its connections

	ranked []ranked // candidates, unordered
	order  []uint64 // the same as numbers: class, age, index in ranked; the last goes next
	tick   uint32   // of the ranking
	asked  int      // calls of victim since then
	none   bool     // the ranking was empty from the start

	rankings int // made, for a test
}

// ranked is a connection as it was when it was ranked.
type ranked struct {
	conn  *Conn
	since since
}

// class orders the candidates: lower ones go first.
type class uint8

const (
	classLingering class = iota // has its last answer
	classDenied                 // waits, and was denied
	classQueued                 // waits for its slot: its client exceeds a limit
	classWaiting                // waits: it costs its client at most a new connection
	classReading                // in the middle of a head or of an unneeded body, the oldest first
	classWriting                // does not take its answer
	classAdmitted               // its request was admitted: an upload, or a WebSocket, silent for the longest first
	classNone                   // must stay
)

func classify(p phase, age uint32) class {
	switch p {
	case lingering:
		return classLingering
	case idleDenied:
		return classDenied
	case queued:
		return classQueued
	case fresh, opens, idle:
		return classWaiting
	case reading, body:
		return classReading
	case sending, tunneling:
		return classAdmitted
	case writing:
		if age > 1 { // a whole tick: it is stuck
			return classWriting
		}
	}
	return classNone
}

func (g *group) add(c *Conn) {
	c.entry.places[g.kind] = int32(len(g.members))
	g.members = append(g.members, c)
}

// remove reports whether c was in the group.
func (g *group) remove(c *Conn) bool {
	at := c.entry.places[g.kind]
	if at < 0 {
		return false
	}
	last := len(g.members) - 1
	moved := g.members[last]
	g.members[at], g.members[last] = moved, nil
	g.members = g.members[:last]
	moved.entry.places[g.kind], c.entry.places[g.kind] = at, -1
	return true
}

// victim returns the connection that goes first, with its phase, or nil if all must stay.
func (g *group) victim(tick uint32) (*Conn, phase) {
	if g.asked++; g.asked >= len(g.members)/8 || g.tick != tick {
		g.rank(tick)
	}
	c, p := g.next()
	// All candidates have gone or moved on: rank again. If there were none, do not: in a flood every new
	// connection would pay for a ranking.
	if c == nil && !g.none {
		g.rank(tick)
		c, p = g.next()
	}
	return c, p
}

// next takes candidates from the ranking until it finds one that has not moved on.
func (g *group) next() (*Conn, phase) {
	for n := len(g.order); n > 0; n = len(g.order) {
		at := g.order[n-1] & placeMask
		g.order = g.order[:n-1]
		r := g.ranked[at]
		g.ranked[at] = ranked{} // it may have ended
		if r.conn.entry.in(g.kind) && r.conn.since() == r.since {
			return r.conn, r.since.phase()
		}
	}
	return nil, 0
}

// A ranking as numbers, which sort four times as fast as structs.
const (
	placeBits = 28 // more than there can be descriptors
	placeMask = 1<<placeBits - 1
	ageBits   = 32
)

// rank orders the candidates.
func (g *group) rank(tick uint32) {
	g.rankings++
	clear(g.ranked)
	g.ranked, g.order, g.tick, g.asked = g.ranked[:0], g.order[:0], tick, 0
	for _, c := range g.members {
		since := c.since()
		age := since.age(tick)
		k := classify(since.phase(), age)
		if c.entry.session != nil && since.phase() == streaming {
			k = c.entry.session.class(tick)
		}
		if k == classQueued {
			age = ^age // the longest waiter goes last: its turn comes next
		}
		if k != classNone {
			g.order = append(g.order, uint64(classNone-k)<<(placeBits+ageBits)|uint64(age)<<placeBits|uint64(len(g.ranked)))
			g.ranked = append(g.ranked, ranked{c, since})
		}
	}
	slices.Sort(g.order)
	g.none = len(g.order) == 0
}
