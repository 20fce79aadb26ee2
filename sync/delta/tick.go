package delta

import (
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Tick returns the packets to send now, the same to every peer: one at least,
// Config.MaxBytes in all at most. They are valid until the next Tick and must
// not be changed. Call it at a steady interval, 100 ms for one; it also ends
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
	s.writeLocked()
	for i := range s.rules {
		s.rules[i].left()
		s.rules[i].epoch(now)
	}
	packets := w.end()
	s.counts.sentPackets += uint64(len(packets))
	s.counts.sentBytes += uint64(w.bytes)
	return packets
}

// writeLocked tells what was picked, as it is by now.
func (s *State) writeLocked() {
	var slot sketch.Slot
	for _, k := range s.picks.heap {
		r := &s.rules[k.rule]
		o := &r.own[k.slot]
		r.heavy.Read(int(k.slot), &slot)
		e := entry{slot: uint64(k.slot), gen: slot.Gen, count: slot.Count, shed: slot.Shed, pos: slot.Pos}
		if o.picked == pickedNamed || slot.Gen != o.gen {
			e.name = slot.Name[:slot.NameLen]
		}
		sec := section{identity: r.identity, slots: uint64(len(r.own)), hidden: r.hides()}
		if !s.writer.write(int(k.rule), &sec, &e) {
			return
		}
		o.told(&slot)
	}
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
