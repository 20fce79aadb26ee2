package server

import (
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// overload counts the seconds in which the server itself could not keep up. One goroutine uses it, except for
// stats. The zero value is ready.
type overload struct {
	seconds [overloads]atomic.Uint64
	last    [overloads]uint64 // the counts a second ago, except for cpu
	delays  delays
}

// overloadReason is what was short. The set is closed: it is a label.
type overloadReason uint8

const (
	// overloadCPU: of at least 100 goroutines that became runnable in the second, more than 1 % waited for
	// a processor for longer than lateDelay. Denials still cost next to nothing, but all answers are late.
	overloadCPU overloadReason = iota
	// overloadConnections: a connection was refused with 503, or could not be accepted.
	overloadConnections
	// overloadLogs: lines of the log or of the access log were lost.
	overloadLogs
	overloads
)

var overloadNames = [overloads]string{"cpu", "connections", "logs"}

const (
	lateDelay  = 10 * time.Millisecond
	minDelays  = 100 // fewer are not significant
	lateDelays = 100 // one in so many
)

// endSecond is called once a second with the counters.
func (o *overload) endSecond(refused, lost uint64) {
	for reason, n := range [overloads]uint64{overloadConnections: refused, overloadLogs: lost} {
		if n > o.last[reason] {
			o.seconds[reason].Add(1)
		}
		o.last[reason] = n
	}
	if o.delays.late(readDelays()) {
		o.seconds[overloadCPU].Add(1)
	}
}

// stats returns the number of such seconds.
func (o *overload) stats() map[string]uint64 {
	all := make(map[string]uint64, overloads)
	for reason, name := range overloadNames {
		all[name] = o.seconds[reason].Load()
	}
	return all
}

// delays compares the scheduler's histogram with that of a second ago.
type delays struct {
	all, long uint64
	known     bool
}

// late reports whether goroutines have waited too long since the last call. The first call has nothing to
// compare with.
func (d *delays) late(h *metrics.Float64Histogram) bool {
	if h == nil {
		return false
	}
	now := delays{known: true}
	for i, n := range h.Counts {
		now.all += n
		if h.Buckets[i] >= lateDelay.Seconds() {
			now.long += n
		}
	}
	was := *d
	*d = now
	all, long := now.all-was.all, now.long-was.long
	return was.known && all >= minDelays && long*lateDelays > all
}

// readDelays returns how long goroutines have waited for a processor since the process began, or nil if this
// Go does not report it.
func readDelays() *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindFloat64Histogram {
		return nil
	}
	return s[0].Value.Float64Histogram()
}

// noteOverload is called once a second.
func (s *Server) noteOverload() {
	refused := s.conns.AcceptErrors()
	for _, n := range s.conns.Rejected() {
		refused += n
	}
	lost := s.droppedLines()
	if f := s.config().LostLogs; f != nil {
		lost += f()
	}
	s.overload.endSecond(refused, lost)
}
