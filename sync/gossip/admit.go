package gossip

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/sync/delta"
	"github.com/hashicorp/memberlist"
)

const (
	// sameAddress is how many names one address may have: a node that is
	// started again under another name comes before the old one is missed.
	sameAddress = 2
	// namesPerNode bounds the names that memberlist keeps, for each of
	// max_nodes: those that are up, and those that were a while ago.
	namesPerNode = 4
)

// NotifyAlive implements memberlist.AliveDelegate: which nodes are let in, and
// passed on to the others. memberlist asks under its node lock, and calls
// NotifyJoin before it gives it up. That memberlist can speak with the node is the
// gate's concern: see versions.
func (m *members) NotifyAlive(n *memberlist.Node) error {
	if r := m.admit(n); r != nil {
		m.journal.reject(r.reason, slog.String("peer", clip(n.Name)), slog.String("address", n.Address()), slog.String("detail", r.text))
		return r
	}
	return nil
}

// NotifyConflict implements memberlist.ConflictDelegate: another node has the name
// of one that is up. memberlist keeps the one it knows.
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

// addressOf is where a node can be reached, if it can.
func addressOf(n *memberlist.Node) (at netip.AddrPort, ok bool) {
	ip, ok := netip.AddrFromSlice(n.Addr)
	ip = ip.Unmap()
	return netip.AddrPortFrom(ip, n.Port), ok && n.Port != 0 && !ip.IsUnspecified() && !ip.IsMulticast() && ip != broadcast
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// admitLocked returns why a node is not let in, or nil. Where there are max_nodes already,
// those in Config.Join are, once each: whoever fills the list with names cannot
// keep them out.
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

// goneLocked counts the names that are not up any more and that memberlist may
// still keep: it forgets them in the first round of probes after goneFor.
func (m *members) goneLocked() int {
	now := time.Now()
	for name, since := range m.gone {
		if now.Sub(since) > goneFor+time.Duration(m.maxNodes)*probeEvery {
			delete(m.gone, name)
		}
	}
	return len(m.gone)
}
