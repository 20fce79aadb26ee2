package logs

import "sync/atomic"

// Budget bounds the lines of one kind of log message. A ticker refills it, so no
// event reads the clock: once it is used up, an event costs one load of a shared
// cache line. Safe for concurrent use; the zero value logs nothing
// until the first refill.
type Budget struct {
	left   atomic.Int64
	logged atomic.Uint64

	// Only the ticker uses these.
	lastTotal, lastLogged uint64
}

// Take reports whether this event may be logged.
func (b *Budget) Take() bool {
	if b.left.Load() <= 0 || b.left.Add(-1) < 0 {
		return false
	}
	b.logged.Add(1)
	return true
}

// Refill allows n lines until the next refill. total is the number of events so far; the result is how many
// of those since the last refill were not logged.
func (b *Budget) Refill(n int, total uint64) (suppressed uint64) {
	b.left.Store(int64(max(n, 0)))
	logged := b.logged.Load()
	lines := logged - b.lastLogged
	events := max(total-b.lastTotal, lines) // events are counted after they are logged
	b.lastTotal, b.lastLogged = b.lastTotal+events, logged
	return events - lines
}
