package delta

import (
	"cmp"
	"slices"
	"time"
	"unsafe"
)

// Stats is a snapshot of what a [State] did and knows.
type Stats struct {
	// What Tick returned, to be sent to each peer, and what Receive was given.
	SentPackets, SentBytes, ReceivedPackets, ReceivedBytes uint64

	// Rejected counts by [Reason]: packets, and for UnknownRule sections, for
	// Slots and Cap entries.
	Rejected [reasonCount]uint64

	MergedSlots  uint64 // entries that were news
	ChargedUnits uint64 // of peers, charged to sketches here

	Mirrors     int   // nodes of which something is known, past members included
	MirrorBytes int64 // of memory
	Rules       []RuleStats
	Peers       []PeerStats // members by name
}

// RuleStats is about one rule's own table.
type RuleStats struct {
	Rule  string
	Slots int
	Live  int // with a client
	// Floor is the most units that one client without a slot may have in this
	// epoch, Unsent the largest growth that waits for room under the ceiling.
	// Both together is what this node may not have sent of a client by now.
	Floor, Unsent uint64
	// Hidden is the most that it came to in this epoch or the one before: f.
	Hidden uint64
	Epoch  time.Duration
}

// PeerStats is about one member.
type PeerStats struct {
	Node         string
	Incarnation  uint64
	Lag          time.Duration // since its last packet, or since it joined
	Packets      uint64        // that were merged
	Seq          uint64        // of its last tick heard of
	MergedSlots  uint64
	ChargedUnits uint64
}

// counts are the counters behind Stats.
type counts struct {
	sentPackets, sentBytes, receivedPackets, receivedBytes uint64
	rejected                                               [reasonCount]uint64
	merged, charged                                        uint64
}

// Stats returns a snapshot as of the last call that brought a time.
func (s *State) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.latest
	c := &s.counts
	st := Stats{
		SentPackets: c.sentPackets, SentBytes: c.sentBytes,
		ReceivedPackets: c.receivedPackets, ReceivedBytes: c.receivedBytes,
		Rejected: c.rejected, MergedSlots: c.merged, ChargedUnits: c.charged,
		Mirrors: len(s.mirrors),
	}
	for _, m := range s.mirrors {
		st.MirrorBytes += m.bytes()
	}
	for i := range s.rules {
		r := &s.rules[i]
		st.Rules = append(st.Rules, RuleStats{
			Rule: r.Name(), Slots: len(r.own), Live: r.live,
			Floor: r.talkers.Floor(), Unsent: r.unsent, Hidden: r.hides(), Epoch: r.Epoch(),
		})
	}
	for node, known := range s.members {
		p := PeerStats{Node: node, Incarnation: known.incarnation, Lag: now - known.joined}
		if m := s.mirrors[node]; m != nil && m.incarnation == known.incarnation {
			p.Lag = min(p.Lag, now-m.heard)
			p.Packets, p.Seq, p.MergedSlots, p.ChargedUnits = m.packets, m.seq, m.merged, m.charged
		}
		p.Lag = max(p.Lag, 0)
		st.Peers = append(st.Peers, p)
	}
	slices.SortFunc(st.Peers, func(a, b PeerStats) int { return cmp.Compare(a.Node, b.Node) })
	return st
}

func (m *mirror) bytes() (n int64) {
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
