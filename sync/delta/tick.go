package delta

import (
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Tick returns the packets to send now, the same to every peer: one at least,
// Config.MaxBytes in all at most. They are valid until the next Tick, so
// that one goroutine is to call it, and must not be changed. Call it at a steady
// interval, 100 ms for one; it also marks the tables and ends their epochs.
func (s *State) Tick(now time.Duration) [][]byte {
	s.lock(now)
	defer s.mu.Unlock()
	s.seq++
	for i := range s.rules {
		r := &s.rules[i]
		d := s.local.LongDoubt(i)
		r.unsentLong, r.grain = d.Units+r.late.Worst(), d.Grain
	}
	s.markLocked(now)
	w := &s.writer
	w.begin(&header{cluster: s.cluster, incarnation: s.config.Incarnation, seq: s.seq, node: s.node})
	s.picks.begin(w.budget(len(s.rules)) * 3 / 4)
	for i := range s.rules {
		s.rules[i].scan(i, &s.picks)
	}
	s.cursor.begin(s.rules)
	s.sweepLocked(s.config.MaxBytes / 4)
	if s.growthLocked() {
		s.sweepLocked(s.config.MaxBytes)
	}
	for i := range s.rules {
		s.rules[i].left()
		s.rotateLocked(i, now)
	}
	packets := w.end()
	s.counts.sentPackets += uint64(len(packets))
	s.counts.sentBytes += uint64(w.bytes)
	return packets
}

// markLocked sets marks on the local tables and on the mirrors if it is time to.
// The first ones are of the local tables alone: there may be mirrors already.
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
			m.tables[i].all(func(_ int, slot *mirrorSlot) { slot.marks.Roll(slot.count + slot.shed) })
		}
	}
}

// rotateLocked ends the epoch of a rule if it is due. That comes after the packets
// of a tick: a new epoch gives slots up easily, and they have just been sent.
func (s *State) rotateLocked(rule int, now time.Duration) {
	if s.local.Rotate(rule, now) {
		r := &s.rules[rule]
		r.before, r.hidden = r.hidden, 0
	}
}

// growthLocked writes the slots that grew most, and reports whether all that were
// picked had room.
func (s *State) growthLocked() bool {
	s.picks.sort()
	for _, k := range s.picks.heap {
		sent := s.rules[k.rule].own[k.slot].waiting == 0 // by the sweep
		if !sent && !s.writeLocked(int(k.rule), int(k.slot), false) {
			return false
		}
	}
	return true
}

// sweepLocked continues the sweep over all live slots, once around in a tick at
// most, until so many bytes are written. It repairs what was lost on the way, and
// gives names to peers that are new.
func (s *State) sweepLocked(bytes int) {
	c := &s.cursor
	for ; c.steps > 0 && len(s.writer.buf) < bytes; c.steps-- {
		if c.rule >= len(s.rules) {
			c.rule, c.slot = 0, 0
		}
		own := s.rules[c.rule].own
		switch {
		case c.slot >= len(own):
			c.rule, c.slot = c.rule+1, 0
			continue
		case own[c.slot].live && !s.writeLocked(c.rule, c.slot, true):
			return
		}
		c.slot++
	}
}

// cursor is where the sweep over all slots continues.
type cursor struct {
	rule, slot int
	steps      int // that are left to this tick
}

// begin allows for once around, and for the steps between the rules.
func (c *cursor) begin(rules []rule) {
	c.steps = len(rules)
	for i := range rules {
		c.steps += len(rules[i].own)
	}
}

// writeLocked writes an entry of a slot as it is by now, with its client's name if
// that is new or asked for, and reports whether there was room.
func (s *State) writeLocked(index, i int, named bool) bool {
	r := &s.rules[index]
	o := &r.own[i]
	var slot sketch.Slot
	r.talkers.Read(i, &slot)
	e := entry{
		slot: uint64(i), gen: slot.Gen, pos: slot.Pos,
		count: min(slot.Count, maxCount), shed: min(slot.Shed, maxCount),
	}
	if named || slot.Gen != o.gen {
		e.name = slot.Name[:slot.NameLen]
	}
	sec := section{identity: r.identity, slots: uint64(len(r.own)), hidden: r.unsentLong, grain: max(r.grain, r.talkers.Grain())}
	if !s.writer.write(index, &sec, &e) {
		return false
	}
	o.sent(&slot)
	return true
}
