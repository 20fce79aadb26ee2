package delta

import (
	"cmp"
	"slices"
	"time"
	"unsafe"
)

// Stats is a snapshot of what a [State] did and knows.
type Stats struct {
	// Sent is what Tick returned, counted once for all peers; Received is what
	// Receive was passed, rejected packets included.
	SentPackets, SentBytes, ReceivedPackets, ReceivedBytes uint64

	// Rejected counts packets by [Reason], except that UnknownRule counts sections, and
	// Slots and Cap count entries.
	Rejected [NumReasons]uint64

	MergedSlots  uint64 // entries that raised a count
	ChargedUnits uint64 // units of peers charged to local sketches

	Bans BanStats

	Mirrors     int   // nodes with a mirror, former members included
	MirrorBytes int64 // of memory
	Rules       []RuleStats
	Peers       []PeerStats // members by name
}

// BanStats counts bans, each once even if it is in many packets.
type BanStats struct {
	Sent, UnbansSent         uint64 // of this node, and bans that ended early
	Received, UnbansReceived uint64 // the same of other nodes
	Applied                  uint64 // of those received
	Refused                  [NumBanReasons]uint64
}

// RuleStats is about one rule's local table.
type RuleStats struct {
	Rule  string
	Slots int
	Live  int // with a client
	// Floor is the most units that one client without a slot may have in this
	// epoch, Unsent the largest growth waiting for room below Config.MaxBytes.
	// Their sum bounds what this node has not yet sent about any one client.
	Floor, Unsent uint64
	// Hidden is the maximum of that sum in this epoch and the previous one: f in
	// the bound of a cluster.
	Hidden uint64
	Epoch  time.Duration
}

// PeerStats is about one member.
type PeerStats struct {
	Node string
	Lag  time.Duration // since its latest tick arrived, or since it joined
}

// Stats returns a snapshot. Lags are as of the latest time passed to any method.
func (s *State) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Mirrors = len(s.mirrors)
	for _, m := range s.mirrors {
		st.MirrorBytes += m.bytes()
	}
	for i := range s.rules {
		r := &s.rules[i]
		st.Rules = append(st.Rules, RuleStats{
			Rule: r.TopTalkers().Rule, Slots: len(r.slots), Live: r.live,
			Floor: r.talkers.Floor(), Unsent: r.unsent, Hidden: r.maxHidden(), Epoch: r.TopTalkers().Epoch,
		})
	}
	for node, known := range s.members {
		since := known.joined
		if m := s.mirrors[node]; m != nil && m.incarnation == known.incarnation {
			since = max(since, m.lastTickAt)
		}
		st.Peers = append(st.Peers, PeerStats{Node: node, Lag: max(s.latest-since, 0)})
	}
	slices.SortFunc(st.Peers, func(a, b PeerStats) int { return cmp.Compare(a.Node, b.Node) })
	return st
}

// bytes returns the memory of the chunks, of the pointers to them, and of bans.
func (m *mirror) bytes() (n int64) {
	n = int64(len(m.claims.known)) * claimBytes
	for i := range m.tables {
		n += int64(len(m.tables[i].chunks)) * 8
		for _, c := range m.tables[i].chunks {
			if c != nil {
				n += int64(unsafe.Sizeof(*c))
			}
		}
	}
	return n
}
