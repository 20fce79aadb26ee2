package delta

import (
	"time"

	"github.com/fastlimit/fastlimit/internal/marks"
)

const (
	// chunkSlots: few clients lie scattered over a table, so small chunks keep
	// the mirror of a quiet node small.
	chunkSlots = 32

	// maxBacklog bounds the time for which a node may save up growth that it is
	// believed: after a partition it has much to report.
	maxBacklog = time.Hour
	// maxAhead is what a node is believed beyond the time that has passed, since
	// packets bunch.
	maxAhead = time.Second
)

// mirrorSlot is what is known of a slot of another node. The zero value is a
// slot that was never heard of.
type mirrorSlot struct {
	pos, gen, count, shed uint64
	marks                 marks.Counter
	name                  [maxName]byte
	nameLen               uint8
	silence               uint32 // mirror.silences as of the last news
}

type chunk [chunkSlots]mirrorSlot

// mirrorTable mirrors the table of one rule, chunk by chunk as entries arrive.
type mirrorTable struct {
	hidden, grain uint64      // see section
	seq           uint64      // of the tick that they are from
	skipped       marks.Peaks // units of one slot that came at once and are in no rate
	chunks        []*chunk
}

// update keeps the head of a section unless that of a later tick is known: packets
// may be late, and anybody on the network may replay one.
func (t *mirrorTable) update(seq uint64, sec *section) {
	if seq >= t.seq {
		t.hidden, t.grain, t.seq = sec.hidden, sec.grain, seq
	}
}

// mirror is what is known of one incarnation of one node. It outlives
// membership: what was charged must not be charged again after a partition.
type mirror struct {
	incarnation uint64
	left        time.Duration // when it ceased to be a member
	heard       time.Duration // the last news: a packet of a later tick than all before
	silences    uint32        // times that it was met after a while

	tokens, shedTokens float64 // units of growth that the node is believed, at heard

	tables  []mirrorTable // as State.rules
	seq     uint64        // the highest
	packets uint64
	merged  uint64 // entries that were news
	charged uint64 // units
}

func newMirror(incarnation uint64, rules []rule, maxRate uint64, now time.Duration) *mirror {
	m := &mirror{
		incarnation: incarnation, heard: now, silences: 1,
		tokens: float64(maxRate) * maxAhead.Seconds(), shedTokens: float64(maxRate) * maxAhead.Seconds(),
		tables: make([]mirrorTable, len(rules)),
	}
	for i := range m.tables {
		m.tables[i].chunks = make([]*chunk, (len(rules[i].own)+chunkSlots-1)/chunkSlots)
	}
	return m
}

// hear notes a packet: the node is believed more as time passes. One that is not
// of a later tick says nothing of the time: it may be a replay of years ago, and
// would make a node that is silent look alive.
func (m *mirror) hear(seq, maxRate uint64, now time.Duration) {
	m.packets++
	if seq <= m.seq {
		return
	}
	m.seq = seq
	passed := max(0, now-m.heard)
	if passed > marks.Every {
		m.silences++
	}
	more, most := float64(maxRate)*passed.Seconds(), float64(maxRate)*maxBacklog.Seconds()
	m.tokens, m.shedTokens = min(m.tokens+more, most), min(m.shedTokens+more, most)
	m.heard = max(m.heard, now)
}

// grant is how much of the growth the node is believed. What it counted before
// anybody listened is charged whole: there is no more of that than slots.
func (m *mirror) grant(g growth) (units, shed uint64) {
	if g.first {
		return g.units, g.shed
	}
	return spend(&m.tokens, g.units), spend(&m.shedTokens, g.shed)
}

func spend(tokens *float64, units uint64) uint64 {
	if *tokens < float64(units) {
		units = uint64(*tokens)
	}
	*tokens -= float64(units)
	return units
}

// slot returns slot i, making room for it.
func (t *mirrorTable) slot(i uint64) *mirrorSlot {
	c := &t.chunks[i/chunkSlots]
	if *c == nil {
		*c = new(chunk)
	}
	return &(*c)[i%chunkSlots]
}

// all calls f for each slot heard of.
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

// growth is what an entry added to what was known.
type growth struct {
	units, shed uint64
	first       bool // of a slot that was never heard of
}

// merge takes the maximum of (generation, count), in this order. That is
// idempotent and free of order, so loss, repetition and replay do no harm.
func (s *mirrorSlot) merge(e *entry) (g growth) {
	if e.gen < s.gen {
		return growth{}
	}
	if e.gen > s.gen {
		g.first = s.gen == 0
		*s = mirrorSlot{pos: e.pos, gen: e.gen, silence: s.silence}
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
