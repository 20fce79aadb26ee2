package remote

import (
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// RoundTripBounds are the upper bounds of [Stats.RoundTrips]; one more bucket holds longer
// round trips.
var RoundTripBounds = [...]time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
}

// Stats is a snapshot. Its counters only grow.
type Stats struct {
	// Operations queued for the store; probes are not counted.
	Takes, Peeks, Refunds, Resets uint64

	Pipelines uint64 // batches
	Busy      uint64 // operations refused because the queue was full
	Away      uint64 // operations refused because the store was unavailable

	Errors map[string]uint64 // failed operations and probes by [Class.Name]; every class has an entry

	Queue, QueueCap int // operations waiting for a worker, and the capacity

	State string // of the breaker: closed, open, half-open
	Trips uint64 // times it opened

	// RoundTrips counts batches by duration; the counts are not cumulative.
	RoundTrips   [len(RoundTripBounds) + 1]uint64
	RoundTripSum time.Duration

	// Distance is the shortest round trip of the last 10 to 20 s in which there
	// were any, 0 if none is known; Timeout is [Config.Timeout], which should be
	// 5 times that. Late counts operations that were answered after it.
	Distance, Timeout time.Duration
	Late              uint64
}

// counters are the growing part of [Stats].
type counters struct {
	operations  [bucket.NumKinds]atomic.Uint64
	pipelines   atomic.Uint64
	busy        atomic.Uint64
	away        atomic.Uint64
	roundTrips  [len(RoundTripBounds) + 1]atomic.Uint64
	roundTripNs atomic.Int64
}

// observe counts a batch.
func (c *counters) observe(took time.Duration) {
	c.pipelines.Add(1)
	i := 0
	for i < len(RoundTripBounds) && took > RoundTripBounds[i] {
		i++
	}
	c.roundTrips[i].Add(1)
	c.roundTripNs.Add(int64(took))
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats {
	c := &s.counters
	st := Stats{
		Takes:        c.operations[bucket.Take].Load(),
		Peeks:        c.operations[bucket.Peek].Load(),
		Refunds:      c.operations[bucket.Refund].Load(),
		Resets:       c.operations[bucket.Reset].Load(),
		Pipelines:    c.pipelines.Load(),
		Busy:         c.busy.Load(),
		Away:         c.away.Load(),
		Errors:       make(map[string]uint64, len(s.classes)),
		Queue:        len(s.queue),
		QueueCap:     cap(s.queue),
		State:        s.breaker.state(),
		Trips:        s.breaker.trips.Load(),
		RoundTripSum: time.Duration(c.roundTripNs.Load()),
		Distance:     s.distance.rtt(),
		Timeout:      s.config.Timeout,
		Late:         s.distance.late.Load(),
	}
	for class, of := range s.classes {
		st.Errors[class.Name] = of.errors.Load()
	}
	for i := range st.RoundTrips {
		st.RoundTrips[i] = c.roundTrips[i].Load()
	}
	return st
}
