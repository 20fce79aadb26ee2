package delta

import (
	"slices"
	"time"
)

// markEvery is how often counts are marked. Rates are over one to two times
// that.
const markEvery = 5 * time.Second

// marks are the units of a client at the last two marks.
type marks struct{ before, last uint64 }

// roll sets a mark at total.
func (m *marks) roll(total uint64) { m.before, m.last = m.last, total }

// skip takes units that came at once, at a first contact or after a silence,
// out of the rate.
func (m *marks) skip(units uint64) {
	m.before += units
	m.last += units
}

// since is the growth since the mark before the last.
func (m *marks) since(total uint64) uint64 { return total - min(total, m.before) }

// longMarks is so many marks that the time since the oldest of them is longer
// than what marks of another node measure, whose ticks come when they come.
const longMarks = 4

// setMarks are the units that a set of the table misses at the last marks, the
// last one first.
type setMarks [longMarks]uint64

// roll sets a mark.
func (m *setMarks) roll(total uint64) {
	copy(m[1:], m[:])
	m[0] = total
}

// peaks are the most there was between marks, the time since the last one first.
type peaks [longMarks + 1]uint64

func (p *peaks) note(v uint64) { p[0] = max(p[0], v) }

func (p *peaks) roll() {
	copy(p[1:], p[:])
	p[0] = 0
}

// worst is the most since the oldest mark.
func (p *peaks) worst() uint64 { return slices.Max(p[:]) }
