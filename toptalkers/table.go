package toptalkers

import (
	"time"

	"github.com/fastlimit/fastlimit/internal/marks"
	"github.com/fastlimit/fastlimit/sketch"
)

const (
	markEvery = marks.Every
	// beforeLast is the index in setMarks of the mark that rates begin at.
	beforeLast = 1
)

// table is what is remembered of one rule's table from mark to mark.
type table struct {
	rule    Rule
	talkers *sketch.TopTalkers
	began   time.Duration // the epoch: with the first mark
	slots   []slotMarks

	missed []setMarks  // by set of the table
	drops  marks.Peaks // of sketch.TopTalkers.Dropped
	grain  marks.Peaks // of sketch.TopTalkers.Grain
}

// slotMarks are the marks of a slot, and the generation that they are of.
type slotMarks struct {
	marks.Counter
	gen uint64
}

// setMarks are the units that a set of the table missed up to the last marks, the
// last one first.
type setMarks [marks.Long]uint64

func newTable(rule Rule) table {
	h := rule.TopTalkers()
	return table{rule: rule, talkers: h, slots: make([]slotMarks, h.Slots()), missed: make([]setMarks, h.Sets())}
}

// mark sets so many marks. Those of the table come before those of its slots:
// what is counted in between is in a rate and in its error, not in neither.
func (t *table) mark(n int) {
	t.note()
	for range n {
		t.markTable()
	}
	if n == 0 {
		return
	}
	var s sketch.Slot
	for i := range t.slots {
		t.talkers.Read(i, &s)
		m := &t.slots[i]
		if s.Gen != m.gen { // units of an earlier client of the slot are not this one's
			*m = slotMarks{gen: s.Gen}
		}
		for range n {
			m.Roll(s.Count + s.Shed)
		}
	}
}

func (t *table) markTable() {
	for i := range t.missed {
		units, _ := t.talkers.Missed(i)
		copy(t.missed[i][1:], t.missed[i][:])
		t.missed[i][0] = units
	}
	t.drops.Roll()
	t.grain.Roll()
	t.note()
}

// note takes note of what the table tells of now only.
func (t *table) note() {
	t.grain.Note(t.talkers.Grain())
	t.drops.Note(t.talkers.Dropped())
}

// missedSince is the most units of one client that no slot has told of since a
// mark, without what a slot that was given up had counted; 0 is the last mark.
func (t *table) missedSince(mark int) (most uint64) {
	for i := range t.missed {
		units, pending := t.talkers.Missed(i)
		most = max(most, units+pending-t.missed[i][mark])
	}
	return most
}

// recent is the growth of slot i, of which s is a copy, since the mark before the
// last one.
func (t *table) recent(i int, s *sketch.Slot) uint64 {
	if m := &t.slots[i]; s.Gen == m.gen {
		return m.Since(s.Count + s.Shed)
	}
	return s.Count + s.Shed
}

// doubt is what the table did not tell since the mark before the last one.
func (t *table) doubt() Doubt {
	t.note()
	return Doubt{Units: t.missedSince(beforeLast) + t.drops.Lately(), Grain: t.grain.Worst()}
}

// longDoubt is what it did not tell since the oldest mark.
func (t *table) longDoubt() Doubt {
	t.note()
	return Doubt{Units: t.missedSince(marks.Long-1) + t.drops.Worst(), Grain: t.grain.Worst()}
}
