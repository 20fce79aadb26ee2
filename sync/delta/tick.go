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
	mark := s.markLocked(now)
	w, p := &s.writer, &s.picks
	w.begin(&header{cluster: s.cluster, incarnation: s.config.Incarnation, seq: s.seq, node: s.node})
	p.begin(w.budget(len(s.rules)))
	for i := range s.rules {
		s.rules[i].scan(i, p, mark)
	}
	p.pass(s.rules)
	p.sort()
	if s.writeLocked() {
		s.topUpLocked()
	}
	for i := range s.rules {
		s.rules[i].left()
		s.rules[i].epoch(now)
	}
	packets := w.end()
	s.counts.sentPackets += uint64(len(packets))
	s.counts.sentBytes += uint64(w.bytes)
	return packets
}

// writeLocked tells what was picked, and reports whether all of it had room.
func (s *State) writeLocked() bool {
	for _, k := range s.picks.heap {
		if !s.tellLocked(int(k.rule), int(k.slot)) {
			return false
		}
	}
	return true
}

// topUpLocked goes on with the pass while there is room: picks are chosen by
// bounds of their sizes.
func (s *State) topUpLocked() {
	p := &s.picks
	for range p.steps(s.rules) {
		o := p.at(s.rules)
		if o == nil {
			continue
		}
		if o.size > 0 && o.picked != pickedNamed {
			o.picked = pickedNamed
			if !s.tellLocked(p.rule, p.slot) {
				return
			}
		}
		p.slot++
	}
}

// tellLocked tells of a slot as it is by now, and reports whether there is
// room.
func (s *State) tellLocked(index, i int) bool {
	r := &s.rules[index]
	o := &r.own[i]
	var slot sketch.Slot
	r.heavy.Read(i, &slot)
	e := entry{slot: uint64(i), gen: slot.Gen, count: slot.Count, shed: slot.Shed, pos: slot.Pos}
	if o.picked == pickedNamed || slot.Gen != o.gen {
		e.name = slot.Name[:slot.NameLen]
	}
	sec := section{identity: r.identity, slots: uint64(len(r.own)), hidden: r.hides()}
	if !s.writer.write(index, &sec, &e) {
		return false
	}
	o.told(&slot)
	return true
}

// markLocked sets marks on the mirrors if it is time to, and tells so.
func (s *State) markLocked(now time.Duration) bool {
	if s.seq == 1 {
		s.marked = [2]time.Duration{now, now}
	}
	if now-s.marked[1] < markEvery {
		return false
	}
	s.marked = [2]time.Duration{s.marked[1], now}
	for _, m := range s.mirrors {
		for i := range m.tables {
			m.tables[i].all(func(_ int, slot *mirrorSlot) { slot.marks.roll(slot.count + slot.shed) })
		}
	}
	return true
}
