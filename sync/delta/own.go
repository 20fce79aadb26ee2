package delta

import (
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// rule is one of the rules with what was told of its table.
type rule struct {
	Rule
	identity uint64
	heavy    *sketch.Heavy
	own      []ownSlot

	live   int           // slots with a client, as of the last Tick
	unsent uint64        // the largest growth that the last Tick left out
	turn   time.Duration // when the epoch ends
	hidden uint64        // see section: in this epoch so far
	before uint64        // hidden of the epoch before
}

// ownSlot is what was told of a slot of the own table.
type ownSlot struct {
	gen, count uint64 // as last told
	marks      marks
	markGen    uint64 // the generation that marks are of

	waiting uint64 // units that are not told yet, as of the last scan
	live    bool   // as of the last scan
}

// scan notes what s has to tell.
func (o *ownSlot) scan(s *sketch.Slot) {
	o.live, o.waiting = s.Live, 0
	if !s.Live {
		return
	}
	o.waiting = s.Count
	if s.Gen == o.gen {
		o.waiting -= min(s.Count, o.count)
	}
}

// told notes that s was told.
func (o *ownSlot) told(s *sketch.Slot) { o.gen, o.count, o.waiting = s.Gen, s.Count, 0 }

// roll sets a mark. Units of an earlier client of the slot are not its own.
func (o *ownSlot) roll(s *sketch.Slot) {
	if s.Gen != o.markGen {
		o.marks, o.markGen = marks{}, s.Gen
	}
	o.marks.roll(s.Count + s.Shed)
}

// recent is the growth since the mark before the last.
func (o *ownSlot) recent(s *sketch.Slot) uint64 {
	if s.Gen != o.markGen {
		return s.Count + s.Shed
	}
	return o.marks.since(s.Count + s.Shed)
}

// scan reads the whole table, offers what grew, and marks if it is time to.
func (r *rule) scan(index int, p *picks, mark bool) {
	var s sketch.Slot
	r.live = 0
	for i := range r.own {
		r.heavy.Read(i, &s)
		o := &r.own[i]
		o.scan(&s)
		if mark {
			o.roll(&s)
		}
		if o.live {
			r.live++
		}
		if o.waiting > 0 {
			p.offer(pick{
				growth: o.waiting, rule: uint16(index), slot: uint32(i),
				size: uint16(entrySize(i, &s, s.Gen != o.gen)),
			})
		}
	}
}

// left notes what the tick left out.
func (r *rule) left() {
	r.unsent = 0
	for i := range r.own {
		r.unsent = max(r.unsent, r.own[i].waiting)
	}
	r.hidden = max(r.hidden, r.heavy.Floor()+r.unsent)
}

// epoch ends the epoch if it is due. That comes after the packets of a tick: a
// new epoch gives slots up easily, and they have just been told.
func (r *rule) epoch(now time.Duration) {
	switch {
	case r.turn == 0:
		r.turn = now + r.Epoch()
	case now >= r.turn:
		r.turn = now + r.Epoch()
		r.before, r.hidden = r.hidden, 0
		r.heavy.Turn()
	}
}

// hides is what the rule's table may hide of one client in an epoch.
func (r *rule) hides() uint64 { return max(r.hidden, r.before) }
