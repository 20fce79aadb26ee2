package delta

import (
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Tick returns the packets to send to every peer now: at least one, together at most
// Config.MaxBytes minus what TellBans has taken. They must not be modified and are valid
// until the next Tick, so only one goroutine may call it. Call it at a steady interval,
// such as 100 ms; it also marks the tables and ends their epochs.
func (s *State) Tick(now time.Duration) [][]byte {
	s.lock(now)
	defer s.mu.Unlock()
	s.seq++
	for i := range s.rules {
		r := &s.rules[i]
		d := s.local.LongDoubt(i)
		r.hiddenLong, r.grain = d.Units+r.late.Worst(), d.Grain
	}
	s.markLocked(now)
	w := &s.writer
	w.maxBytes, s.bans.bytes = s.config.MaxBytes-s.bans.bytes, 0
	w.begin(&header{cluster: s.cluster, incarnation: s.config.Incarnation, seq: s.seq, node: s.node})
	s.picks.begin(w.budget(len(s.rules)) * 3 / 4)
	for i := range s.rules {
		s.rules[i].scan(i, &s.picks)
	}
	s.cursor.begin(s.rules)
	s.sweepLocked(w.maxBytes / 4)
	if s.growthLocked() {
		s.sweepLocked(s.config.MaxBytes)
	}
	for i := range s.rules {
		r := &s.rules[i]
		r.noteUnsent()
		// After the packets are written, since a new epoch lets clients take over slots:
		// by now the counts of the clients before them have been sent.
		if s.local.Rotate(i, now) {
			r.before, r.hidden = r.hidden, 0
		}
	}
	packets := w.end()
	s.stats.SentPackets += uint64(len(packets))
	s.stats.SentBytes += uint64(w.bytes)
	return packets
}

// markLocked sets marks on the local tables and on the mirrors if they are due. The
// first Tick, which sets two at once, marks local tables only: what mirrors hold
// by then arrived in this window.
func (s *State) markLocked(now time.Duration) {
	set := s.local.Mark(now)
	for i := range s.rules {
		for range set {
			s.rules[i].late.Roll()
		}
	}
	if s.seq == 1 || set == 0 {
		return
	}
	for _, m := range s.mirrors {
		for i := range m.tables {
			m.tables[i].skipped.Roll()
			m.tables[i].all(func(_ int, slot *mirrorSlot) {
				slot.all.Roll(slot.count + slot.shed)
				slot.denied.Roll(slot.shed)
			})
		}
	}
}

// growthLocked writes the picked slots and reports whether all of them had room.
func (s *State) growthLocked() bool {
	s.picks.sort()
	for _, k := range s.picks.heap {
		sent := s.rules[k.rule].slots[k.slot].waiting == 0 // by the sweep of this tick
		if !sent && !s.writeLocked(int(k.rule), int(k.slot), false) {
			return false
		}
	}
	return true
}

// sweepLocked continues the sweep over all live slots until the buffer holds the given
// number of bytes, at most once around per tick. The sweep repairs losses, and sends the
// clients' names to peers that have just joined.
func (s *State) sweepLocked(bytes int) {
	c := &s.cursor
	for ; c.steps > 0 && len(s.writer.buf) < bytes; c.steps-- {
		if c.rule >= len(s.rules) {
			c.rule, c.slot = 0, 0
		}
		slots := s.rules[c.rule].slots
		switch {
		case c.slot >= len(slots):
			c.rule, c.slot = c.rule+1, 0
			continue
		case slots[c.slot].live && !s.writeLocked(c.rule, c.slot, true):
			return
		}
		c.slot++
	}
}

// cursor is where the sweep over all slots continues.
type cursor struct {
	rule, slot int
	steps      int // left for this tick
}

// begin allows one full round: a step for each slot, and one for each change of rule.
func (c *cursor) begin(rules []rule) {
	c.steps = len(rules)
	for i := range rules {
		c.steps += len(rules[i].slots)
	}
}

// writeLocked writes the current state of a slot and reports whether there was
// room. The client's name goes along if named is set or the client is new.
func (s *State) writeLocked(index, i int, named bool) bool {
	r := &s.rules[index]
	o := &r.slots[i]
	var slot sketch.Slot
	r.talkers.Read(i, &slot)
	e := entry{
		slot: uint64(i), gen: slot.Gen, pos: slot.Pos,
		count: min(slot.Count, maxCount), shed: min(slot.Shed, maxCount),
	}
	if named || slot.Gen != o.gen {
		e.name = slot.Name[:slot.NameLen]
	}
	sec := section{identity: r.identity, slots: uint64(len(r.slots)), hidden: r.hiddenLong, grain: max(r.grain, r.talkers.Grain())}
	if !s.writer.write(index, &sec, &e) {
		return false
	}
	o.sent(&slot)
	return true
}
