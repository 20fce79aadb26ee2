package gossip

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/fastlimit/fastlimit/sync/delta"
	"github.com/hashicorp/memberlist"
)

// protocolVersion is of everything that nodes say to each other: the metadata,
// and the packets of delta, which have a version of their own too.
const protocolVersion = 1

// metaSize is a version and an incarnation.
const metaSize = 1 + 8

var errVersion = errors.New("it speaks another version")

func appendMeta(b []byte, incarnation uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, protocolVersion), incarnation)
}

// readMeta returns the incarnation of a node that speaks as this one does.
func readMeta(meta []byte) (incarnation uint64, err error) {
	if len(meta) != metaSize || meta[0] != protocolVersion {
		return 0, errVersion
	}
	return binary.BigEndian.Uint64(meta[1:]), nil
}

// members follows memberlist's events. memberlist calls its methods, some under
// its node lock; they call nothing of memberlist's. Safe for concurrent use.
type members struct {
	self        string
	incarnation uint64
	maxNodes    int
	log         *slog.Logger
	journal     *journal
	exchange    exchange

	mu    sync.Mutex // guards all below
	peers map[string]memberlist.Node
	lost  map[string]netip.AddrPort // peers that went; join asks for them
	reach map[netip.AddrPort]bool   // seeds that led to peers, whatever they call themselves
	nudge chan struct{}             // a peer was lost: join must not wait
}

// exchange is what the loop does with counts. *delta.State behind the
// limiter's clock is one.
type exchange interface {
	tick() [][]byte
	receive(packet []byte) error
	join(node string, incarnation uint64)
	leave(node string)
}

func newMembers(c *Config, incarnation uint64, j *journal, x exchange) *members {
	return &members{
		self: c.Node, incarnation: incarnation, maxNodes: c.MaxNodes, log: c.Logger, journal: j, exchange: x,
		peers: map[string]memberlist.Node{}, lost: map[string]netip.AddrPort{}, reach: map[netip.AddrPort]bool{},
		nudge: make(chan struct{}, 1),
	}
}

// NotifyAlive implements memberlist.AliveDelegate: who is let in.
func (m *members) NotifyAlive(n *memberlist.Node) error {
	_, err := readMeta(n.Meta)
	return err
}

// NotifyJoin implements memberlist.EventDelegate.
func (m *members) NotifyJoin(n *memberlist.Node) { m.up(n) }

// NotifyUpdate implements memberlist.EventDelegate: a peer restarted before it
// was missed.
func (m *members) NotifyUpdate(n *memberlist.Node) { m.up(n) }

func (m *members) up(n *memberlist.Node) {
	incarnation, err := readMeta(n.Meta)
	if n.Name == m.self || err != nil {
		return
	}
	m.mu.Lock()
	_, known := m.peers[n.Name]
	m.peers[n.Name] = *n
	delete(m.lost, n.Name)
	count := len(m.peers)
	m.exchange.join(n.Name, incarnation)
	m.mu.Unlock()
	if !known {
		m.log.Info("cluster: peer is up", slog.String("peer", n.Name), slog.String("address", n.Address()), slog.Int("peers", count))
	}
	if count+1 > m.maxNodes {
		m.journal.tell(reasonNodes, slog.Int("nodes", count+1))
	}
}

// NotifyLeave implements memberlist.EventDelegate: a peer left, or is dead.
func (m *members) NotifyLeave(n *memberlist.Node) {
	if n.Name == m.self {
		return
	}
	m.mu.Lock()
	delete(m.peers, n.Name)
	if at, err := netip.ParseAddrPort(n.Address()); err == nil && (len(m.lost) < m.maxNodes || m.lost[n.Name].IsValid()) {
		m.lost[n.Name] = at
	}
	clear(m.reach)
	count := len(m.peers)
	m.exchange.leave(n.Name)
	m.mu.Unlock()
	m.log.Warn("cluster: peer is gone", slog.String("peer", n.Name), slog.Int("peers", count))
	select {
	case m.nudge <- struct{}{}:
	default:
	}
}

// NodeMeta implements memberlist.Delegate.
func (m *members) NodeMeta(int) []byte { return appendMeta(nil, m.incarnation) }

// NotifyMsg implements memberlist.Delegate: a packet of counts.
func (m *members) NotifyMsg(b []byte) {
	if r, ok := errors.AsType[*delta.Rejected](m.exchange.receive(b)); ok {
		m.journal.tell(r.Reason.String(), slog.String("peer", r.Node))
	}
}

// GetBroadcasts implements memberlist.Delegate: counts are sent apart.
func (*members) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate: counts are sent apart.
func (*members) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (*members) MergeRemoteState([]byte, bool) {}

// list returns the peers there are.
func (m *members) list() []memberlist.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.peers), func(a, b memberlist.Node) int { return strings.Compare(a.Name, b.Name) })
}
