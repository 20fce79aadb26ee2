package delta

import (
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// rule is one of the rules with what was told of its table.
type rule struct {
	Rule
	identity uint64
	talkers  *sketch.TopTalkers
	own      []ownSlot

	live   int           // slots with a client, as of the last Tick
	unsent uint64        // the largest growth that the last Tick left out
	began  time.Duration // when the epoch began: with the first tick
	hidden uint64        // the most of Floor and unsent together: in this epoch so far
	before uint64        // hidden of the epoch before

	missed []setMarks // by set of the table
	late   peaks      // units of one slot that waited to be told
	drops  peaks      // sketch.TopTalkers.Dropped
	grain  peaks      // of the table
	untold uint64     // see section.hidden, as of the last scan
}

// ownSlot is what was told of a slot of the own table.
type ownSlot struct {
	gen, count, shed uint64 // as last told
	marks            marks
	markGen          uint64 // the generation that marks are of

	waiting uint64 // units that are not told yet, as of the last scan
	late    uint64 // and those shed
	live    bool   // as of the last scan
}

// scan notes what s has to tell.
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

// told notes that s was told.
func (o *ownSlot) told(s *sketch.Slot) {
	o.gen, o.count, o.shed = s.Gen, s.Count, s.Shed
	o.waiting, o.late = 0, 0
}

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

// scan reads the whole table, offers what grew, and sets so many marks.
func (r *rule) scan(index int, p *picks, marks int) {
	var s sketch.Slot
	r.live = 0
	r.grain.note(r.talkers.Grain())
	r.untold = r.missedSince(longMarks-1) + r.drops.worst() + r.late.worst()
	for range marks {
		r.mark()
	}
	for i := range r.own {
		r.talkers.Read(i, &s)
		o := &r.own[i]
		o.scan(&s)
		for range marks {
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
		r.late.note(r.own[i].late)
	}
	r.hidden = max(r.hidden, r.talkers.Floor()+r.unsent)
}

// mark sets the marks of the table, which the marks of its slots belong to.
func (r *rule) mark() {
	for i := range r.missed {
		units, _ := r.talkers.Missed(i)
		r.missed[i].roll(units)
	}
	r.late.roll()
	r.drops.roll()
	r.grain.roll()
	r.grain.note(r.talkers.Grain())
}

// missedSince is the most units of one client of which no slot tells, since a
// mark, but for drops: 0 is the last one.
func (r *rule) missedSince(mark int) (most uint64) {
	r.drops.note(r.talkers.Dropped())
	for i := range r.missed {
		units, pending := r.talkers.Missed(i)
		most = max(most, units+pending-r.missed[i][mark])
	}
	return most
}

// coarse is the grain of what was shed since the marks.
func (r *rule) coarse() uint64 { return max(r.grain.worst(), r.talkers.Grain()) }

// epoch ends the epoch if it is due. That comes after the packets of a tick: a
// new epoch gives slots up easily, and they have just been told. It is not
// shorter than the time since the mark before the last, or Top would not know of
// whom the table has just given up for silent.
func (r *rule) epoch(now, marked time.Duration) {
	if now-r.began >= r.Epoch() && r.began <= marked {
		r.began = now
		r.before, r.hidden = r.hidden, 0
		r.talkers.Turn()
	}
}

// hides is what the rule's table may hide of one client in an epoch.
func (r *rule) hides() uint64 { return max(r.hidden, r.before) }
