package gossip

import (
	"errors"
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

var (
	errNodes   = errors.New("there are max_nodes nodes")
	errAddress = errors.New("its address is that of other nodes, or of no node")
	errName    = errors.New("its name is empty or too long")
)

// NotifyAlive implements memberlist.AliveDelegate: who is let in, and told to
// the others. memberlist asks under its node lock, and calls NotifyJoin before
// it gives it up.
func (m *members) NotifyAlive(n *memberlist.Node) error {
	incarnation, err := readMeta(n.Meta)
	if err != nil {
		return err
	}
	if !speaksAlike(n) {
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

// speaksAlike tells whether memberlist at this node, and at all others, can
// speak with a node. One that it cannot speak with would have it refuse all
// lists of members.
func speaksAlike(n *memberlist.Node) bool {
	const version = memberlist.ProtocolVersion2Compatible
	return n.PMin <= version && n.PMax >= version && n.PCur == version && n.DMin == 0 && n.DCur == 0
}

// addressOf is where a node can be reached, if it can.
func addressOf(n *memberlist.Node) (at netip.AddrPort, ok bool) {
	ip, ok := netip.AddrFromSlice(n.Addr)
	ip = ip.Unmap()
	return netip.AddrPortFrom(ip, n.Port), ok && n.Port != 0 && !ip.IsUnspecified() && !ip.IsMulticast() && ip != broadcast
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// admitLocked tells why a node is not let in. Where there are max_nodes already,
// those in Config.Join are, once each: whoever fills the list with names cannot
// keep them out.
func (m *members) admitLocked(name string, at netip.AddrPort) error {
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
