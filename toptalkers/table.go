package toptalkers

import (
	"time"

	"github.com/fastlimit/fastlimit/internal/marks"
	"github.com/fastlimit/fastlimit/sketch"
)

// beforeLast is the index in setMarks of the mark at which the window of rates starts.
const beforeLast = 1

// table is one rule's table of top talkers together with its marks.
type table struct {
	rule    Rule
	talkers *sketch.TopTalkers
	began   time.Duration // start of the epoch; the first starts with the first mark
	slots   []slotMarks

	missed []setMarks  // by set of the table
	drops  marks.Peaks // of sketch.TopTalkers.Dropped
	grain  marks.Peaks // of sketch.TopTalkers.Grain
}

// slotMarks are the marks of a slot, and the generation they belong to.
type slotMarks struct {
	all, denied marks.Counter
	gen         uint64
}

// setMarks are the units that a set of the table had missed at each of the last
// marks, newest first.
type setMarks [marks.Long]uint64

func newTable(rule Rule) table {
	h := rule.TopTalkers().Table
	return table{rule: rule, talkers: h, slots: make([]slotMarks, h.Slots()), missed: make([]setMarks, h.Sets())}
}

// mark sets n marks. The table is marked before its slots: units counted in between
// are then in both a rate and its error, rather than in neither.
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
		if s.Gen != m.gen { // the slot has a new client, whose count started at zero
			*m = slotMarks{gen: s.Gen}
		}
		for range n {
			m.all.Roll(s.Count + s.Shed)
			m.denied.Roll(s.Shed)
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

// note records values of which the table only keeps the current one.
func (t *table) note() {
	t.grain.Note(t.talkers.Grain())
	t.drops.Note(t.talkers.Dropped())
}

// missedSince returns the most units of one client since a mark that are in no slot; 0 is
// the last mark. Units counted in a slot that was then taken over are not included: they
// are in drops.
func (t *table) missedSince(mark int) (most uint64) {
	for i := range t.missed {
		units, pending := t.talkers.Missed(i)
		most = max(most, units+pending-t.missed[i][mark])
	}
	return most
}

// recent returns the growth of slot i, of which s is a copy, within the window of rates,
// and how much of it was denied.
func (t *table) recent(i int, s *sketch.Slot) (units, denied uint64) {
	if m := &t.slots[i]; s.Gen == m.gen {
		return m.all.Since(s.Count + s.Shed), m.denied.Since(s.Shed)
	}
	return s.Count + s.Shed, s.Shed
}

// doubt returns the Doubt of the table over the window of rates. The grain is the largest
// since the oldest mark, which can only widen the bound.
func (t *table) doubt() Doubt {
	t.note()
	return Doubt{Units: t.missedSince(beforeLast) + t.drops.Lately(), Grain: t.grain.Worst()}
}

// longDoubt is doubt since the oldest mark.
func (t *table) longDoubt() Doubt {
	t.note()
	return Doubt{Units: t.missedSince(marks.Long-1) + t.drops.Worst(), Grain: t.grain.Worst()}
}
