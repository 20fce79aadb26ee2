package delta

import (
	"time"

	"github.com/fastlimit/fastlimit/internal/marks"
)

const (
	// chunkSlots is the unit of allocation. The few clients of a quiet node are
	// scattered over its table, so small chunks keep its mirror small.
	chunkSlots = 32

	// maxBacklog is how long the allowance of a silent node accumulates: after a partition
	// it has a lot of growth to report at once.
	maxBacklog = time.Hour
	// maxAhead is the initial allowance, in time at the full rate: packets arrive
	// in bunches.
	maxAhead = time.Second
)

// mirrorSlot is what is known of a slot of another node. The zero value is a
// slot that no packet has mentioned.
type mirrorSlot struct {
	pos, gen, count, shed uint64
	all, denied           marks.Counter // of count + shed, and of shed
	name                  [maxName]byte
	nameLen               uint8
	gap                   uint32 // mirror.gaps when an entry was last merged
}

// skip keeps growth out of rates.
func (s *mirrorSlot) skip(units, shed uint64) {
	s.all.Skip(units + shed)
	s.denied.Skip(shed)
}

type chunk [chunkSlots]mirrorSlot

// mirrorTable mirrors the table of one rule, chunk by chunk as entries arrive.
type mirrorTable struct {
	hidden, grain uint64      // see section
	seq           uint64      // the tick that hidden and grain are from
	skipped       marks.Peaks // the most units of one slot that arrived after a gap and are in no rate
	chunks        []*chunk    // nil until an entry of the chunk arrives
}

// update stores the header of a section unless one of a later tick is known:
// packets may be late, and anybody on the network may replay one.
func (t *mirrorTable) update(seq uint64, sec *section) {
	if seq >= t.seq {
		t.hidden, t.grain, t.seq = sec.hidden, sec.grain, seq
	}
}

// mirror is what is known of one incarnation of one node. It outlives the node's
// membership: what was charged must not be charged again after a partition.
type mirror struct {
	incarnation uint64
	left        time.Duration // when it ceased to be a member
	lastTickAt  time.Duration // when the highest tick arrived; replays do not count
	gaps        uint32        // times that it was heard again after a silence

	tokens, shedTokens float64 // allowances: units of growth the node is believed, as of lastTickAt

	tables []mirrorTable // numbered as State.rules
	claims claims        // the bans that the node has reported
	seq    uint64        // the highest tick seen
}

func newMirror(incarnation uint64, rules []rule, maxRate uint64, now time.Duration) *mirror {
	m := &mirror{
		incarnation: incarnation, lastTickAt: now, gaps: 1,
		tokens: float64(maxRate) * maxAhead.Seconds(), shedTokens: float64(maxRate) * maxAhead.Seconds(),
		tables: make([]mirrorTable, len(rules)),
	}
	for i := range m.tables {
		m.tables[i] = newMirrorTable(&rules[i])
	}
	return m
}

// follow rebuilds the tables for other rules. was has each rule's previous index, or -1.
func (m *mirror) follow(rules []rule, was []int) {
	old := m.tables
	m.tables = make([]mirrorTable, len(rules))
	for i, k := range was {
		if k >= 0 {
			m.tables[i] = old[k]
		} else {
			m.tables[i] = newMirrorTable(&rules[i])
		}
	}
}

func newMirrorTable(r *rule) mirrorTable {
	return mirrorTable{chunks: make([]*chunk, (len(r.slots)+chunkSlots-1)/chunkSlots)}
}

// advance refills the allowances for the time that has passed, if a packet is from a later
// tick than all before. Any other packet may be a replay, which must not make a silent node
// look alive (TestReplaysDoNotLookAlive).
func (m *mirror) advance(seq, maxRate uint64, now time.Duration) {
	if seq <= m.seq {
		return
	}
	m.seq = seq
	passed := max(0, now-m.lastTickAt)
	if passed > marks.Every {
		m.gaps++
	}
	more, most := float64(maxRate)*passed.Seconds(), float64(maxRate)*maxBacklog.Seconds()
	m.tokens, m.shedTokens = min(m.tokens+more, most), min(m.shedTokens+more, most)
	m.lastTickAt = max(m.lastTickAt, now)
}

// grant takes growth from the allowances and returns how much of it is believed. The first
// report of a slot, counted before any peer listened, is believed in full: the number of
// slots bounds how often that happens.
func (m *mirror) grant(g growth) (units, shed uint64) {
	if g.first {
		return g.units, g.shed
	}
	return spend(&m.tokens, g.units), spend(&m.shedTokens, g.shed)
}

func spend(tokens *float64, units uint64) uint64 {
	units = min(units, uint64(*tokens))
	*tokens -= float64(units)
	return units
}

// slot returns slot i, allocating its chunk if necessary.
func (t *mirrorTable) slot(i uint64) *mirrorSlot {
	c := &t.chunks[i/chunkSlots]
	if *c == nil {
		*c = new(chunk)
	}
	return &(*c)[i%chunkSlots]
}

// all calls f for each slot that a packet has mentioned.
func (t *mirrorTable) all(f func(i int, s *mirrorSlot)) {
	for c, ch := range t.chunks {
		if ch == nil {
			continue
		}
		for i := range ch {
			if ch[i].gen > 0 {
				f(c*chunkSlots+i, &ch[i])
			}
		}
	}
}

// growth is how much an entry raised the counts of a slot.
type growth struct {
	units, shed uint64
	first       bool // the slot was not known before
}

// merge keeps the lexicographic maximum of (generation, count). The merge is
// idempotent, commutative and associative, so loss, reordering, repetition and
// replay do no harm (FuzzReceive, TestMergeInAnyOrder).
func (s *mirrorSlot) merge(e *entry) (g growth) {
	if e.gen < s.gen {
		return growth{}
	}
	if e.gen > s.gen {
		g.first = s.gen == 0
		*s = mirrorSlot{pos: e.pos, gen: e.gen, gap: s.gap}
	}
	if e.count > s.count {
		g.units, s.count = e.count-s.count, e.count
	}
	if e.shed > s.shed {
		g.shed, s.shed = e.shed-s.shed, e.shed
	}
	if s.nameLen == 0 {
		s.nameLen = uint8(copy(s.name[:], e.name))
	}
	return g
}
