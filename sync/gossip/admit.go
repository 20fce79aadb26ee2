package gossip

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/sync/delta"
	"github.com/hashicorp/memberlist"
)

const (
	// sameAddress is how many names one address may have. It is two, since a node that
	// restarts under another name is there before the failure of the old name is detected.
	sameAddress = 2
	// namesPerNode bounds the names that memberlist keeps per node of max_nodes:
	// of nodes that are up, and of those that were until recently.
	namesPerNode = 4
)

// NotifyAlive implements memberlist.AliveDelegate. It decides which nodes are admitted and
// passed on to the others. memberlist calls it under its node lock, and calls NotifyJoin
// before releasing that. The gate has already checked that memberlist can talk to the node;
// see versions.
func (m *members) NotifyAlive(n *memberlist.Node) error {
	if r := m.admit(n); r != nil {
		m.journal.reject(r.reason, slog.String("peer", clip(n.Name)), slog.String("address", n.Address()), slog.String("detail", r.text))
		return r
	}
	return nil
}

// NotifyConflict implements memberlist.ConflictDelegate: a node claims the name of
// one that is up, from another address. memberlist keeps the one it knows.
func (m *members) NotifyConflict(known, other *memberlist.Node) {
	m.journal.reject(reasonConflict, slog.String("peer", clip(known.Name)),
		slog.String("address", known.Address()), slog.String("other", other.Address()))
}

func (m *members) admit(n *memberlist.Node) *refusal {
	incarnation, ok := readMeta(n.Meta)
	if !ok {
		return errVersion
	}
	if n.Name == "" || len(n.Name) > delta.MaxNodeName {
		return errName
	}
	at, ok := addressOf(n)
	if !ok {
		return errAddress
	}
	if n.Name == m.self {
		if incarnation != m.incarnation {
			m.twins.claimed(at)
		}
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.admitLocked(n.Name, at)
}

// addressOf returns where a node can be reached; ok is false if its address is not
// one that a node can have.
func addressOf(n *memberlist.Node) (at netip.AddrPort, ok bool) {
	ip, ok := netip.AddrFromSlice(n.Addr)
	ip = ip.Unmap()
	return netip.AddrPortFrom(ip, n.Port), ok && n.Port != 0 && !ip.IsUnspecified() && !ip.IsMulticast() && ip != broadcast
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// admitLocked returns why a node is not admitted, or nil. Beyond max_nodes the nodes
// in Config.Join are still admitted, once each, so that a member cannot keep them
// out by filling the list with invented names.
func (m *members) admitLocked(name string, at netip.AddrPort) *refusal {
	if m.peers[name] != nil {
		return nil
	}
	same := 0
	for _, p := range m.peers {
		if other, ok := addressOf(&p.Node); ok && other == at {
			same++
		}
	}
	if same >= sameAddress {
		return errAddress
	}
	if m.seeds[at] && same == 0 {
		return nil
	}
	if len(m.peers)+1 >= m.maxNodes {
		return errNodes
	}
	if _, known := m.gone[name]; !known && len(m.peers)+m.goneLocked() >= namesPerNode*m.maxNodes {
		return errNodes
	}
	return nil
}

// namesKept returns how long memberlist may keep the name of a node that is gone. It
// forgets the name in the first round of probes after it has stopped gossiping about the
// node, and a round probes one node per interval.
func namesKept(tells time.Duration, maxNodes int, probes time.Duration) time.Duration {
	return tells + time.Duration(maxNodes)*probes
}

// goneLocked counts the names that are no longer up but that memberlist may still
// keep.
func (m *members) goneLocked() int {
	now := time.Now()
	for name, since := range m.gone {
		if now.Sub(since) > m.keepsGone {
			delete(m.gone, name)
		}
	}
	return len(m.gone)
}
