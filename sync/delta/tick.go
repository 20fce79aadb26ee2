package delta

import (
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Tick returns the packets to send now, the same to every peer: one at least,
// Config.MaxBytes in all at most. They are valid until the next Tick, so
// that one goroutine is to call it, and must not be changed. Call it at a steady interval, 100 ms for one; it also ends
// the epochs of the tables.
func (s *State) Tick(now time.Duration) [][]byte {
	s.lock(now)
	defer s.mu.Unlock()
	s.seq++
	marks := s.markLocked(now)
	passed := now - s.ticked
	s.ticked = now
	w := &s.writer
	w.begin(&header{cluster: s.cluster, incarnation: s.config.Incarnation, seq: s.seq, node: s.node})
	s.picks.begin(w.budget(len(s.rules)) * 3 / 4)
	for i := range s.rules {
		s.rules[i].scan(i, &s.picks, marks)
		if s.seq > 1 && passed > 0 {
			s.rules[i].talkers.Pace(passed)
		}
	}
	s.tour.begin(s.rules)
	s.passLocked(s.config.MaxBytes / 4)
	if s.growthLocked() {
		s.passLocked(s.config.MaxBytes)
	}
	for i := range s.rules {
		s.rules[i].left()
		s.rules[i].epoch(now, s.marked[0])
	}
	packets := w.end()
	s.counts.sentPackets += uint64(len(packets))
	s.counts.sentBytes += uint64(w.bytes)
	return packets
}

// growthLocked tells what grew most, and reports whether all that was picked
// had room.
func (s *State) growthLocked() bool {
	s.picks.sort()
	for _, k := range s.picks.heap {
		told := s.rules[k.rule].own[k.slot].waiting == 0 // by the pass
		if !told && !s.tellLocked(int(k.rule), int(k.slot), false) {
			return false
		}
	}
	return true
}

// passLocked goes on with the pass over all live slots, once around in a tick
// at most, until so many bytes are written. It repairs what was lost on the way,
// and tells names to those who are new.
func (s *State) passLocked(bytes int) {
	t := &s.tour
	for ; t.steps > 0 && len(s.writer.buf) < bytes; t.steps-- {
		if t.rule >= len(s.rules) {
			t.rule, t.slot = 0, 0
		}
		own := s.rules[t.rule].own
		switch {
		case t.slot >= len(own):
			t.rule, t.slot = t.rule+1, 0
			continue
		case own[t.slot].live && !s.tellLocked(t.rule, t.slot, true):
			return
		}
		t.slot++
	}
}

// tour is where the pass over all slots goes on.
type tour struct {
	rule, slot int
	steps      int // that are left to this tick
}

// begin allows for once around, and the ways between the rules.
func (t *tour) begin(rules []rule) {
	t.steps = len(rules)
	for i := range rules {
		t.steps += len(rules[i].own)
	}
}

// tellLocked tells of a slot as it is by now, with its client's name if that is
// new or asked for, and reports whether there was room.
func (s *State) tellLocked(index, i int, named bool) bool {
	r := &s.rules[index]
	o := &r.own[i]
	var slot sketch.Slot
	r.talkers.Read(i, &slot)
	e := entry{
		slot: uint64(i), gen: slot.Gen, pos: slot.Pos,
		count: min(slot.Count, MaxCount), shed: min(slot.Shed, MaxCount),
	}
	if named || slot.Gen != o.gen {
		e.name = slot.Name[:slot.NameLen]
	}
	sec := section{identity: r.identity, slots: uint64(len(r.own)), hidden: r.untold, grain: r.coarse()}
	if !s.writer.write(index, &sec, &e) {
		return false
	}
	o.told(&slot)
	return true
}

// markLocked sets marks on the mirrors if it is time to, and tells how many to
// set on the own tables. What was before the first tick is no rate.
func (s *State) markLocked(now time.Duration) (marks int) {
	if s.seq == 1 {
		s.marked = [2]time.Duration{now, now}
		for i := range s.rules {
			s.rules[i].began = now
		}
		return 2
	}
	if now-s.marked[1] < markEvery {
		return 0
	}
	s.marked = [2]time.Duration{s.marked[1], now}
	for _, m := range s.mirrors {
		for i := range m.tables {
			m.tables[i].skipped.roll()
			m.tables[i].all(func(_ int, slot *mirrorSlot) { slot.marks.roll(slot.count + slot.shed) })
		}
	}
	return 1
}
