package delta

import "time"

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
