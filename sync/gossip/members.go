package gossip

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/sync/delta"
	"github.com/hashicorp/memberlist"
)

// protocolVersion covers everything that nodes send each other: the metadata and the
// packets of delta, which also carry their own version.
const protocolVersion = 1

// knowsBans is the least version of the delegate of a node that understands packets of
// bans. Nodes before that say 0, and get none. The version that nodes use stays 0 (see
// versions), so that both kinds admit each other.
const knowsBans = 1

// knowsQuestions is that of a node which answers questions of [Nodes.Ask].
const knowsQuestions = 2

// metaSize is the size of a version and an incarnation.
const metaSize = 1 + 8

func appendMeta(b []byte, incarnation uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, protocolVersion), incarnation)
}

// readMeta returns the incarnation of a node; ok is false if the node has another
// protocol version.
func readMeta(meta []byte) (incarnation uint64, ok bool) {
	if len(meta) != metaSize || meta[0] != protocolVersion {
		return 0, false
	}
	return binary.BigEndian.Uint64(meta[1:]), true
}

// members tracks the peers from memberlist's events and decides which nodes are
// admitted. memberlist calls its methods, some of them under its node lock, so they
// must not call memberlist. Safe for concurrent use.
type members struct {
	self        string
	incarnation uint64
	maxNodes    int
	journal     *journal
	exchange    Exchange
	twins       *twins
	answer      func(peer string, question []byte) []byte // of the program
	nudge       chan struct{}                             // wakes join when a peer is lost
	keepsGone   time.Duration                             // how long memberlist may keep the name of a peer that is gone

	mu    sync.Mutex // guards all below
	peers map[string]*peer
	lost  map[string]lostPeer     // peers that went without a farewell; join asks for them
	gone  map[string]time.Time    // when peers went whose names memberlist may still keep
	seeds map[netip.AddrPort]bool // addresses that the names in Config.Join resolved to
	reach map[netip.AddrPort]bool // seeds that answered, even if no member advertises them
}

// peer is another node that is up.
type peer struct {
	memberlist.Node
	incarnation uint64
	leaving     bool // it has sent a farewell
}

// lostPeer is a peer that is no longer up and did not say that it would leave.
type lostPeer struct {
	at          netip.AddrPort
	incarnation uint64
	since       time.Time
}

func newMembers(c *Config, incarnation uint64, j *journal, x Exchange) *members {
	return &members{
		self: c.Node, incarnation: incarnation, maxNodes: c.MaxNodes, journal: j, exchange: x, answer: c.Answer,
		twins: newTwins(c.Node, incarnation, c.Logger), nudge: make(chan struct{}, 1),
		keepsGone: namesKept(goneFor, c.MaxNodes, probeEvery),
		peers:     map[string]*peer{}, lost: map[string]lostPeer{}, gone: map[string]time.Time{},
		seeds: map[netip.AddrPort]bool{}, reach: map[netip.AddrPort]bool{},
	}
}

// NotifyJoin implements memberlist.EventDelegate.
func (m *members) NotifyJoin(n *memberlist.Node) { m.up(n) }

// NotifyUpdate implements memberlist.EventDelegate: a peer restarted before its
// failure was detected.
func (m *members) NotifyUpdate(n *memberlist.Node) { m.up(n) }

func (m *members) up(n *memberlist.Node) {
	incarnation, ok := readMeta(n.Meta)
	if n.Name == m.self || !ok {
		return
	}
	m.mu.Lock()
	_, known := m.peers[n.Name]
	m.peers[n.Name] = &peer{Node: *n, incarnation: incarnation}
	delete(m.lost, n.Name)
	delete(m.gone, n.Name)
	count := len(m.peers)
	m.exchange.Join(n.Name, incarnation)
	m.mu.Unlock()
	if !known {
		m.journal.event(slog.LevelInfo, "cluster: peer is up",
			slog.String("peer", n.Name), slog.String("address", n.Address()), slog.Int("peers", count))
	}
	if count+1 > m.maxNodes {
		m.journal.warn(reasonNodes, slog.Int("nodes", count+1))
	}
}

// NotifyLeave implements memberlist.EventDelegate: a peer has left or is dead.
func (m *members) NotifyLeave(n *memberlist.Node) {
	m.mu.Lock()
	p := m.peers[n.Name]
	if p == nil { // this node itself
		m.mu.Unlock()
		return
	}
	now := time.Now()
	delete(m.peers, n.Name)
	m.gone[n.Name] = now
	if at, err := netip.ParseAddrPort(n.Address()); err == nil && !p.leaving {
		m.addLostLocked(n.Name, lostPeer{at: at, incarnation: p.incarnation, since: now})
	}
	clear(m.reach)
	count := len(m.peers)
	m.exchange.Leave(n.Name)
	m.mu.Unlock()
	if p.leaving {
		m.journal.event(slog.LevelInfo, "cluster: peer has left", slog.String("peer", n.Name), slog.Int("peers", count))
		return
	}
	m.journal.event(slog.LevelWarn, "cluster: peer is gone", slog.String("peer", n.Name), slog.Int("peers", count))
	wake(m.nudge)
}

// addLostLocked makes join ask for a peer again. Beyond max_nodes lost peers, the one lost
// first is forgotten.
func (m *members) addLostLocked(name string, l lostPeer) {
	m.lost[name] = l
	if len(m.lost) <= m.maxNodes {
		return
	}
	first := name
	for n, other := range m.lost {
		if other.since.Before(m.lost[first].since) {
			first = n
		}
	}
	delete(m.lost, first)
}

// NodeMeta implements memberlist.Delegate.
func (m *members) NodeMeta(int) []byte { return appendMeta(nil, m.incarnation) }

// NotifyMsg implements memberlist.Delegate: a message that memberlist has read, from an unknown
// address.
func (m *members) NotifyMsg(b []byte) { m.receive(b, netip.AddrPort{}) }

// receive takes a packet of counts or bans, or a farewell. Bans deny clients directly, so
// they are believed only from the address by which all know the node that they name.
func (m *members) receive(b []byte, from netip.AddrPort) {
	if name, incarnation, ok := readFarewell(b); ok {
		m.farewell(name, incarnation)
		return
	}
	if node, ok := delta.BansOf(b); ok && !m.isAt(node, from) {
		m.journal.reject(reasonSource, slog.String("peer", clip(node)), slog.String("from", from.String()))
		return
	}
	if r := m.exchange.Receive(b); r != nil {
		m.journal.warn(r.Reason.String(), slog.String("peer", r.Node))
	}
}

// isAt reports whether a node has an address, as far as is known. For a node that is no
// member there is nothing to compare, and delta does not believe it.
func (m *members) isAt(node string, from netip.AddrPort) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.peers[node]
	if p == nil {
		return true
	}
	at, ok := addressOf(&p.Node)
	return ok && at == from
}

// GetBroadcasts implements memberlist.Delegate: counts are not piggybacked.
func (*members) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate: counts are not part of member lists.
func (*members) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (*members) MergeRemoteState([]byte, bool) {}

// list returns the peers that are up, sorted by name.
func (m *members) list() []memberlist.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]memberlist.Node, 0, len(m.peers))
	for _, p := range m.peers {
		all = append(all, p.Node)
	}
	slices.SortFunc(all, func(a, b memberlist.Node) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// farewell starts the message that a node sends to each peer before it leaves, so
// that they do not search for it. memberlist distinguishes leaving from dying, but
// does not tell its delegates. The message names the incarnation, so that a replay
// has no effect on a restarted node.
const farewell = "flbye\x01"

func (m *members) appendFarewell(b []byte) []byte {
	return append(binary.BigEndian.AppendUint64(append(b, farewell...), m.incarnation), m.self...)
}

func readFarewell(b []byte) (name string, incarnation uint64, ok bool) {
	rest, ok := bytes.CutPrefix(b, []byte(farewell))
	if !ok || len(rest) < 8 {
		return "", 0, false
	}
	return string(rest[8:]), binary.BigEndian.Uint64(rest), true
}

func (m *members) farewell(name string, incarnation uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.peers[name]; p != nil && p.incarnation == incarnation {
		p.leaving = true
	}
	if l, ok := m.lost[name]; ok && l.incarnation == incarnation { // memberlist's packet came first
		delete(m.lost, name)
	}
}
