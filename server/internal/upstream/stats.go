package upstream

import "github.com/fastlimit/fastlimit/server/internal/latency"

// Stats are a pool's counts since it was made, and its current levels.
type Stats struct {
	Servers []ServerStats

	Queue    int    // waiting requests
	Served   uint64 // waited and got a connection, or room for one
	Full     uint64 // sent away because the queue was full
	TimedOut uint64 // waited in vain
	Left     uint64 // left while waiting

	Queued latency.Counts // how long all of these waited, except those in Full
}

// ServerStats are the counts of a server.
type ServerStats struct {
	Name    string
	InUse   int // lent, or being dialled
	Idle    int
	Ejected bool

	Requests  uint64 // connections that were lent
	Dials     uint64
	Failures  uint64 // requests that were returned as Failed
	Ejections uint64

	DialErrors map[string]uint64 // by class; all classes are there

	Connect   latency.Counts // until a connection was ready, including TLS, or failed
	FirstByte latency.Counts // from the first byte of a request to the first byte of its answer
}

// Stats returns them.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &p.line
	stats := Stats{Queue: l.len, Served: l.served, Full: l.full, TimedOut: l.timedOut, Left: l.left, Queued: p.queued.Counts()}
	for _, s := range p.servers {
		one := ServerStats{
			Name: s.Name, InUse: s.inUse, Idle: s.idle.len, Ejected: s.ejected,
			Requests: s.requests, Dials: s.dials, Failures: s.failed, Ejections: s.ejections,
			DialErrors: make(map[string]uint64, dialClasses),
			Connect:    s.connect.Counts(), FirstByte: s.firstByte.Counts(),
		}
		for class, n := range s.dialErrors {
			one.DialErrors[dialClassNames[class]] = n
		}
		stats.Servers = append(stats.Servers, one)
	}
	return stats
}
