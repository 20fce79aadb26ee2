package server

import "sync/atomic"

// sampler bounds the lines of one kind of log. Its budget is refilled by a
// ticker, not by a clock read per event: once the budget is used up an event
// costs one load of a line that all cores share. Safe for concurrent use; the
// zero value logs nothing until the first refill.
type sampler struct {
	budget atomic.Int64
	logged atomic.Uint64

	// Of the ticker alone.
	lastTotal, lastLogged uint64
}

// take reports whether this event may be logged.
func (s *sampler) take() bool {
	if s.budget.Load() <= 0 || s.budget.Add(-1) < 0 {
		return false
	}
	s.logged.Add(1)
	return true
}

// refill allows n lines until the next refill. total is the number of events so
// far; the result is how many of those since the last refill were not logged.
func (s *sampler) refill(n int, total uint64) (suppressed uint64) {
	s.budget.Store(int64(max(n, 0)))
	logged := s.logged.Load()
	events, lines := total-s.lastTotal, logged-s.lastLogged
	if events < lines { // an event is counted after it was logged
		events = lines
	}
	s.lastTotal, s.lastLogged = s.lastTotal+events, logged
	return events - lines
}
