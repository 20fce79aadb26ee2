package delta

import (
	"github.com/fastlimit/fastlimit/internal/marks"
	"github.com/fastlimit/fastlimit/sketch"
)

// rule is one of the rules with what was sent of its table.
type rule struct {
	Rule
	identity uint64
	talkers  *sketch.TopTalkers
	own      []ownSlot

	live   int    // slots with a client, as of the last Tick
	unsent uint64 // the largest growth that the last Tick left out
	hidden uint64 // the maximum of Floor and unsent together in this epoch so far
	before uint64 // hidden of the epoch before

	late       marks.Peaks // units of one slot that waited to be sent
	unsentLong uint64      // see section.hidden, as of the last Tick
	grain      uint64      // see section.grain, likewise
}

// ownSlot is what was sent of a slot of the own table.
type ownSlot struct {
	gen, count, shed uint64 // as last sent

	waiting uint64 // units that are not sent yet, as of the last scan
	late    uint64 // and those shed
	live    bool   // as of the last scan
}

// scan notes what of s is to be sent.
func (o *ownSlot) scan(s *sketch.Slot) {
	o.live, o.waiting, o.late = s.Live, 0, 0
	if !s.Live {
		return
	}
	o.waiting, o.late = s.Count, s.Count+s.Shed
	if s.Gen == o.gen {
		o.waiting -= min(s.Count, o.count)
		o.late = o.waiting + s.Shed - min(s.Shed, o.shed)
	}
}

// sent notes that s was sent.
func (o *ownSlot) sent(s *sketch.Slot) {
	o.gen, o.count, o.shed = s.Gen, s.Count, s.Shed
	o.waiting, o.late = 0, 0
}

// scan reads the whole table and offers the slots that grew.
func (r *rule) scan(index int, p *picks) {
	var s sketch.Slot
	r.live = 0
	for i := range r.own {
		r.talkers.Read(i, &s)
		o := &r.own[i]
		o.scan(&s)
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
		r.late.Note(r.own[i].late)
	}
	r.hidden = max(r.hidden, r.talkers.Floor()+r.unsent)
}

// hides is what the rule's table may hide of one client in an epoch.
func (r *rule) hides() uint64 { return max(r.hidden, r.before) }
