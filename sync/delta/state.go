package delta

import (
	"slices"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/toptalkers"
)

// State is what a node knows about the top talkers of all nodes, and what it has
// sent about its own. It starts no goroutine and reads no clock: now is monotonic
// time with an arbitrary origin, from the same clock in all calls. Safe for
// concurrent use; calls are serialized. The zero value is not usable: call [New].
type State struct {
	config  Config
	cluster uint64 // clusterHash of Config.Cluster
	node    []byte
	inbox   inbox // has its own lock

	mu      sync.Mutex          // guards all below
	byID    map[uint64]int      // identity → index of rules
	local   *toptalkers.Ranking // of this node's tables, numbered as rules; its lock is taken last
	banners map[uint64]Banner   // by identity
	changes int                 // calls of Follow
	rules   []rule
	members map[string]member
	mirrors map[string]*mirror
	bans    ownBans
	picks   picks
	cursor  cursor
	writer  writer
	seq     uint64        // of the last Tick
	stats   Stats         // its counters; Stats fills in the rest
	latest  time.Duration // the latest time passed by a caller
}

// member is another node that the membership reports alive.
type member struct {
	incarnation uint64
	joined      time.Duration
}

// New returns a State without members. Its error joins all problems of the
// configuration.
func New(c Config) (*State, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &State{
		config: c, cluster: clusterHash(c.Cluster),
		members: map[string]member{}, mirrors: map[string]*mirror{},
	}
	s.config.Ignore = slices.Clone(c.Ignore)
	s.setRulesLocked(c.Rules, c.Banners)
	s.bans = newOwnBans(&c)
	s.local = toptalkers.New(c.Node, c.Rules)
	s.node, s.writer = []byte(c.Node), newWriter(&c)
	return s, nil
}

// setRulesLocked replaces the rules.
func (s *State) setRulesLocked(rules []Rule, banners []Banner) {
	s.rules, s.byID, s.banners = nil, map[uint64]int{}, map[uint64]Banner{}
	for _, r := range rules {
		h := r.TopTalkers().Table
		if h == nil {
			continue
		}
		s.byID[r.Identity()] = len(s.rules)
		s.rules = append(s.rules, rule{Rule: r, identity: r.Identity(), talkers: h, slots: make([]localSlot, h.Slots())})
	}
	for _, b := range banners {
		s.banners[b.Identity()] = b
	}
}

// Follow replaces the rules; [State.Recall] sends the bans of the new ones. What was sent
// and received of a rule stays if its identity and its table do, so that nothing is charged
// twice. Other rules start over: the counts that nodes had of them are of limits that are
// gone.
func (s *State) Follow(rules []Rule, banners []Banner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, at, before := s.rules, s.byID, s.banners
	s.setRulesLocked(rules, banners)
	s.bans.follow(renamed(before, s.banners))
	was := make([]int, len(s.rules)) // its previous index; -1: none
	for i := range s.rules {
		r := &s.rules[i]
		k, ok := at[r.identity]
		if was[i] = -1; ok && old[k].talkers == r.talkers {
			now := r.Rule
			was[i], *r = k, old[k]
			r.Rule = now
		}
	}
	for _, m := range s.mirrors {
		m.follow(s.rules, was)
	}
	s.local = toptalkers.Follow(s.local, rules)
	s.cursor = cursor{}
	s.changes++
}

// renamed maps the previous identities of rules to those that rules with the same names
// have now.
func renamed(before, now map[uint64]Banner) map[uint64]uint64 {
	byName, ids := map[string]uint64{}, map[uint64]uint64{}
	for id, b := range now {
		byName[b.Name()] = id
	}
	for id, b := range before {
		if to, ok := byName[b.Name()]; ok {
			ids[id] = to
		}
	}
	return ids
}

// lock takes the lock and the time. A clock that steps back is harmless, since latest never
// does (TestClockStepsBack).
func (s *State) lock(now time.Duration) {
	s.mu.Lock()
	s.latest = max(s.latest, now)
}

// Join makes node a member with this incarnation, so that its packets are merged
// from now on. Its mirror is kept if the incarnation is the same as before, and
// replaced by the next packet otherwise.
func (s *State) Join(node string, incarnation uint64, now time.Duration) {
	s.lock(now)
	defer s.mu.Unlock()
	if m, ok := s.members[node]; ok && m.incarnation == incarnation || node == s.config.Node {
		return
	}
	s.members[node] = member{incarnation: incarnation, joined: now}
}

// Leave removes node from the members: its packets are dropped from now on. Its
// mirror stays, since the node may come back after a partition, until another
// incarnation joins or another node needs the room.
func (s *State) Leave(node string, now time.Duration) {
	s.lock(now)
	defer s.mu.Unlock()
	delete(s.members, node)
	if m := s.mirrors[node]; m != nil {
		m.left = now
	}
}

// Receive merges a packet from another node. It returns nil, or why it merged nothing of
// the packet. Skipped parts of a merged packet, such as sections of unknown
// rules, are only counted in Stats. Receive does not retain the packet.
func (s *State) Receive(packet []byte, now time.Duration) *Rejected {
	s.lock(now)
	defer s.mu.Unlock()
	s.stats.ReceivedPackets++
	s.stats.ReceivedBytes += uint64(len(packet))
	node, reason := s.receiveLocked(packet, now)
	if reason == accepted {
		return nil
	}
	s.stats.Rejected[reason]++
	return &Rejected{Reason: reason, Node: string(node)}
}

// receiveLocked checks a packet, the cheapest checks first, and merges it. It returns
// the sender's name as soon as that has been read.
func (s *State) receiveLocked(packet []byte, now time.Duration) (node []byte, _ Reason) {
	if len(packet) > maxPacket {
		return nil, Oversized
	}
	r := reader{b: packet}
	// Direct calls: through functions in a table the header would escape to the heap.
	bans, want := false, byte(version)
	switch string(r.bytes(len(magic))) {
	case magic:
	case banMagic:
		bans, want = true, banVersion
	default:
		return nil, Malformed
	}
	if v := r.byte(); v != want && !r.bad {
		return nil, Version
	}
	h := r.header()
	if r.bad {
		return nil, Malformed
	}
	if h.cluster != s.cluster {
		return h.node, Cluster
	}
	// Checked before anything is merged, so that a packet is merged whole or not
	// at all. The second parse in mergeLocked can then no longer fail.
	if bans && !banPacketWellFormed(r.b) || !bans && !wellFormed(r.b) {
		return h.node, Malformed
	}
	m, reason := s.senderLocked(&h, now)
	if m == nil {
		return h.node, reason
	}
	if bans {
		return h.node, s.mergeBansLocked(m, r, now)
	}
	m.advance(h.seq, s.config.maxRate, now)
	s.mergeLocked(m, h.seq, r)
	return h.node, accepted
}

// senderLocked returns the mirror of a packet's sender, or why the sender is not
// believed. The first packet of an incarnation replaces the mirror.
func (s *State) senderLocked(h *header, now time.Duration) (*mirror, Reason) {
	node := string(h.node)
	if node == s.config.Node {
		return nil, Self
	}
	if slices.Contains(s.config.Ignore, node) {
		return nil, Ignored
	}
	known, ok := s.members[node]
	if !ok {
		return nil, UnknownNode
	}
	if known.incarnation != h.incarnation {
		return nil, StaleIncarnation
	}
	m := s.mirrors[node]
	if m != nil && m.incarnation == h.incarnation {
		return m, accepted
	}
	if m == nil && len(s.mirrors) >= s.config.MaxNodes && !s.forgetLocked() {
		return nil, TooManyNodes
	}
	m = newMirror(h.incarnation, s.rules, s.config.maxRate, now)
	s.mirrors[node] = m
	return m, accepted
}

// forgetLocked makes room for a mirror by dropping the one of the node that left
// first. It reports false if all mirrors are of members.
func (s *State) forgetLocked() bool {
	var first string
	for node, m := range s.mirrors {
		if _, ok := s.members[node]; ok {
			continue
		}
		if f := s.mirrors[first]; f == nil || m.left < f.left || m.left == f.left && node < first {
			first = node
		}
	}
	_, found := s.mirrors[first]
	delete(s.mirrors, first)
	return found
}

// mergeLocked merges the sections that r has yet to read; they are well-formed.
func (s *State) mergeLocked(m *mirror, seq uint64, r reader) {
	for r.more() {
		sec := r.section()
		i, known := s.byID[sec.identity]
		if !known {
			s.stats.Rejected[UnknownRule]++
		} else {
			m.tables[i].update(seq, &sec)
		}
		for range sec.entries {
			e := r.entry(&sec)
			switch {
			case !known:
			case e.slot >= uint64(len(s.rules[i].slots)):
				s.stats.Rejected[Slots]++
			default:
				s.mergeEntryLocked(m, i, &e)
			}
		}
	}
}

// mergeEntryLocked merges an entry and charges the growth that is believed.
func (s *State) mergeEntryLocked(m *mirror, i int, e *entry) {
	slot := m.tables[i].slot(e.slot)
	g := slot.merge(e)
	if g.units == 0 && g.shed == 0 {
		return
	}
	// Units that piled up while the node was silent arrived now but were not
	// counted now: they are charged, but kept out of Top's rate, whose error bound
	// includes them for as long as it is over this window.
	if slot.gap != m.gaps {
		slot.gap = m.gaps
		slot.skip(g.units, g.shed)
		m.tables[i].skipped.Note(g.units + g.shed)
	}
	s.stats.MergedSlots++
	ok, shed := m.grant(g)
	if ok < g.units || shed < g.shed {
		s.stats.Rejected[Cap]++
		slot.skip(g.units-ok, g.shed-shed) // not believed, so not in a rate
	}
	if ok > 0 {
		s.rules[i].ChargePeer(slot.pos, ok)
		s.stats.ChargedUnits += ok
	}
}
