package pgstore

import (
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket/remote"
)

// Stats is a snapshot of the counters that every store has and of those that only
// PostgreSQL has. Its counters only grow.
type Stats struct {
	remote.Stats

	Statements uint64 // sent: one per batch, including probes and queries for the clock
	Pruned     uint64 // expired rows that this node has deleted

	// ClockOffset is the server's clock minus this machine's at the last answer.
	// It is for display only.
	ClockOffset time.Duration

	Pool Pool
}

// Pool counts open connections.
type Pool struct{ Total, Idle int }

// counters are the part of [Stats] that grows and that only PostgreSQL has.
type counters struct {
	statements atomic.Uint64
	pruned     atomic.Uint64
	offsetUs   atomic.Int64
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats {
	c, p := &s.driver.counters, s.driver.pool.Stat()
	return Stats{
		Stats:       s.Store.Stats(),
		Statements:  c.statements.Load(),
		Pruned:      c.pruned.Load(),
		ClockOffset: time.Duration(c.offsetUs.Load()) * time.Microsecond,
		Pool:        Pool{Total: int(p.TotalConns()), Idle: int(p.IdleConns())},
	}
}
