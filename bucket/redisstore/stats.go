package redisstore

import (
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// RoundTripBounds are the upper bounds of [Stats.RoundTrips]; one more bucket
// holds what is longer.
var RoundTripBounds = [...]time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
}

// Stats is a snapshot. Its counters only grow.
type Stats struct {
	// Operations sent to Redis, resent ones counted once, probes not.
	Takes, Peeks, Refunds, Resets uint64

	Pipelines uint64 // batches
	Commands  uint64 // commands in them, one each but in a cluster; resent ones and scripts too
	Resent    uint64 // commands that Redis had not carried out: NOSCRIPT, MOVED, ASK, CROSSSLOT
	Loads     uint64 // times the script was loaded
	Busy      uint64 // operations refused because the queue was full
	Away      uint64 // operations refused because Redis was away

	Errors map[string]uint64 // operations failed, by [Class]; every class is there

	Queue, QueueCap int // operations that wait for a worker

	State string // of the breaker: closed, open, half-open
	Trips uint64 // times it opened

	// RoundTrips counts batches by duration, not cumulated.
	RoundTrips   [len(RoundTripBounds) + 1]uint64
	RoundTripSum time.Duration

	// Distance is the shortest round trip of the last 10 to 20 s in which there
	// were any, with every batch and probe and at the start; Timeout is
	// [Config.Timeout], which should be 5 times that. Late counts operations
	// that were answered after it.
	Distance, Timeout time.Duration
	Late              uint64

	// ClockOffset is the server's clock minus this machine's at the last
	// answer: for display, nothing is computed from it.
	ClockOffset time.Duration

	Pool Pool
}

// Pool is the state of the connections.
type Pool struct {
	Hits, Misses, Timeouts, Stale uint64
	Total, Idle                   int
}

// counters are the growing part of [Stats].
type counters struct {
	operations  [kinds]atomic.Uint64
	pipelines   atomic.Uint64
	commands    atomic.Uint64
	resent      atomic.Uint64
	loads       atomic.Uint64
	busy        atomic.Uint64
	away        atomic.Uint64
	trips       atomic.Uint64
	errors      [classes]atomic.Uint64
	roundTrips  [len(RoundTripBounds) + 1]atomic.Uint64
	roundTripNs atomic.Int64
	offsetUs    atomic.Int64
}

func (c *counters) observe(d time.Duration) {
	i := 0
	for i < len(RoundTripBounds) && d > RoundTripBounds[i] {
		i++
	}
	c.roundTrips[i].Add(1)
	c.roundTripNs.Add(int64(d))
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
		Commands:     c.commands.Load(),
		Resent:       c.resent.Load(),
		Loads:        c.loads.Load(),
		Busy:         c.busy.Load(),
		Away:         c.away.Load(),
		Errors:       make(map[string]uint64, classes),
		Queue:        len(s.queue),
		QueueCap:     cap(s.queue),
		State:        s.breaker.state(),
		Trips:        c.trips.Load(),
		RoundTripSum: time.Duration(c.roundTripNs.Load()),
		Distance:     s.distance.rtt(),
		Timeout:      s.config.Timeout,
		Late:         s.distance.late.Load(),
		ClockOffset:  time.Duration(c.offsetUs.Load()) * time.Microsecond,
	}
	for i := Class(1); i < classes; i++ {
		st.Errors[i.String()] = c.errors[i].Load()
	}
	for i := range st.RoundTrips {
		st.RoundTrips[i] = c.roundTrips[i].Load()
	}
	p := s.client.PoolStats()
	st.Pool = Pool{
		Hits: uint64(p.Hits), Misses: uint64(p.Misses), Timeouts: uint64(p.Timeouts), Stale: uint64(p.StaleConns),
		Total: int(p.TotalConns), Idle: int(p.IdleConns),
	}
	return st
}
