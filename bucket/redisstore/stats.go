package redisstore

import (
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket/remote"
)

// Stats is a snapshot of the counters that every store has and of those that only Redis
// has. Its counters only grow.
type Stats struct {
	remote.Stats

	Commands uint64 // sent: one per batch, or per operation in a cluster; resent ones, scripts and probes count
	Resent   uint64 // commands that Redis had not carried out: NOSCRIPT, MOVED, ASK, CROSSSLOT
	Loads    uint64 // times the script was loaded

	// ClockOffset is the server's clock minus this machine's at the last answer.
	// It is for display only.
	ClockOffset time.Duration

	Pool Pool
}

// Pool counts open connections.
type Pool struct{ Total, Idle int }

// counters are the part of [Stats] that grows and that only Redis has.
type counters struct {
	commands atomic.Uint64
	resent   atomic.Uint64
	loads    atomic.Uint64
	offsetUs atomic.Int64
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats {
	c, p := &s.driver.counters, s.driver.client.PoolStats()
	return Stats{
		Stats:       s.Store.Stats(),
		Commands:    c.commands.Load(),
		Resent:      c.resent.Load(),
		Loads:       c.loads.Load(),
		ClockOffset: time.Duration(c.offsetUs.Load()) * time.Microsecond,
		Pool:        Pool{Total: int(p.TotalConns), Idle: int(p.IdleConns)},
	}
}
