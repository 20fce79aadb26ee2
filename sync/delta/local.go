package delta

import (
	"github.com/fastlimit/fastlimit/internal/marks"
	"github.com/fastlimit/fastlimit/sketch"
)

// rule is a rule together with what has been sent of its local table.
type rule struct {
	Rule
	identity uint64
	talkers  *sketch.TopTalkers
	slots    []localSlot

	live   int    // slots with a client, as of the last Tick
	unsent uint64 // the largest growth of a slot that the last Tick had no room for
	hidden uint64 // the maximum of Floor + unsent in this epoch so far
	before uint64 // hidden in the previous epoch

	late       marks.Peaks // the most units, shed ones included, of one slot that waited to be sent
	hiddenLong uint64      // see section.hidden; as of the last Tick
	grain      uint64      // see section.grain; as of the last Tick
}

// localSlot is what peers have been sent of a slot of the local table.
type localSlot struct {
	gen, count, shed uint64 // as last sent

	waiting uint64 // units not yet sent, as of the last scan
	late    uint64 // waiting plus the shed units not yet sent
	live    bool   // as of the last scan
}

// scan records how much of s has not been sent yet. A new generation has not been
// sent at all: its count started at zero.
func (o *localSlot) scan(s *sketch.Slot) {
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

// sent records that s was sent as it is.
func (o *localSlot) sent(s *sketch.Slot) {
	o.gen, o.count, o.shed = s.Gen, s.Count, s.Shed
	o.waiting, o.late = 0, 0
}

// scan reads the whole table and offers every slot that grew to p.
func (r *rule) scan(index int, p *picks) {
	var s sketch.Slot
	r.live = 0
	for i := range r.slots {
		r.talkers.Read(i, &s)
		o := &r.slots[i]
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

// noteUnsent records what the tick had no room for. The maximum is in Stats.Hidden
// and, through late, in the error that peers give for the rates of this node.
func (r *rule) noteUnsent() {
	r.unsent = 0
	for i := range r.slots {
		r.unsent = max(r.unsent, r.slots[i].waiting)
		r.late.Note(r.slots[i].late)
	}
	r.hidden = max(r.hidden, r.talkers.Floor()+r.unsent)
}

// maxHidden returns the most units of one client that peers may not have been sent, in this
// epoch or the previous one.
func (r *rule) maxHidden() uint64 { return max(r.hidden, r.before) }
