package redisstore

import (
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket/remote"
)

// Stats is a snapshot: what every store counts, and what is of Redis alone. Its
// counters only grow.
type Stats struct {
	remote.Stats

	Commands uint64 // commands in all batches, one each but in a cluster; resent ones, scripts and probes too
	Resent   uint64 // commands that Redis had not carried out: NOSCRIPT, MOVED, ASK, CROSSSLOT
	Loads    uint64 // times the script was loaded

	// ClockOffset is the server's clock minus this machine's at the last
	// answer: for display, nothing is computed from it.
	ClockOffset time.Duration

	Pool Pool
}

// Pool counts open connections.
type Pool struct{ Total, Idle int }

// counters are the growing part of [Stats] that is of Redis alone.
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
		Stats:       s.remote.Stats(),
		Commands:    c.commands.Load(),
		Resent:      c.resent.Load(),
		Loads:       c.loads.Load(),
		ClockOffset: time.Duration(c.offsetUs.Load()) * time.Microsecond,
		Pool:        Pool{Total: int(p.TotalConns), Idle: int(p.IdleConns)},
	}
}
