package gossip

import (
	"github.com/fastlimit/fastlimit/sync/delta"
)

// Stats is a snapshot of what a [Cluster] did and knows.
type Stats struct {
	// SentBytes and ReceivedBytes count all traffic of the sockets, UDP and TCP:
	// counts, membership, and rejected packets.
	SentBytes, ReceivedBytes uint64
	// Rejected counts what was dropped by reason, with a 0 for those that did not
	// occur.
	Rejected map[string]uint64
	// Peers is the number of other nodes that are up.
	Peers int
	// Yields reports that an older node has this one's name; see [Nodes.Ready].
	Yields bool
	// Delta is the state of the exchange of counts.
	Delta delta.Stats
}

// Stats returns a snapshot, without Delta.
func (c *Nodes) Stats() Stats {
	s := Stats{
		SentBytes: c.transport.sent.Load(), ReceivedBytes: c.transport.received.Load(),
		Rejected: map[string]uint64{}, Peers: len(c.members.list()),
	}
	_, s.Yields = c.members.twins.yieldsTo()
	noted := c.journal.totals()
	for _, r := range reasons() {
		s.Rejected[r] = noted[r]
	}
	return s
}

// Stats returns a snapshot.
func (c *Cluster) Stats() Stats {
	s := c.Nodes.Stats()
	s.Delta = c.counts.state.Stats()
	for r := range delta.NumReasons {
		s.Rejected[r.String()] += s.Delta.Rejected[r]
	}
	return s
}
