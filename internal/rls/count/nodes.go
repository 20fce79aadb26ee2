package count

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/sync/delta"
)

// Nodes counts together with the other nodes of a cluster, without a store. Each node sends the
// others what it has counted in the windows that run: how far, not how much more. A count is
// what this node has counted and what each of the others has sent.
//
// So packets may be lost, late, repeated or replayed, and no count becomes too high by that: of
// each node the highest count of a window stands. What a node sent before it ended or was
// started anew keeps counting until its windows are over.
//
// A client is admitted more than its limit only by the hits that the others have not sent yet:
// those of the last interval or two. More than the limit at each node it is never admitted,
// also by nodes that do not hear each other.
//
// It is safe for concurrent use.
type Nodes struct {
	own    *Counters
	config NodesConfig
	outbox outbox
	writer writer // used by Tick alone
	peers  atomic.Pointer[[]*peer]

	mu       sync.Mutex        // guards what follows, and changes of peers
	members  map[string]uint64 // the incarnations of the other nodes that are up
	entries  []entry           // of a packet; for Receive
	rejected [delta.NumReasons]uint64
	evicted  uint64 // counts of nodes that are forgotten
}

// NodesConfig configures a [Nodes]. All fields but Ignore are required.
type NodesConfig struct {
	Clients  int           // as in [New]; what each other node says takes as much memory again
	Secret   sketch.Secret // the same on all nodes, so that their keys are
	MaxNodes int           // the most nodes of which counts are kept, with those that have left
	MaxBytes int           // the most bytes of a Tick
	Ignore   []string      // nodes whose packets are dropped

	Node        string // this node, and the number of its run
	Incarnation uint64
	PacketSize  int // the most bytes of a packet

	Now func() time.Duration // since 1970
}

// peer is what another node has sent. It stays when the node leaves, until its windows are over.
type peer struct {
	node        string
	incarnation uint64
	counts      *Counters
	over        time.Duration // when the last of its windows is; guarded by Nodes.mu
}

// NewNodes returns counts of no other node yet.
func NewNodes(c NodesConfig) (*Nodes, error) {
	if len(c.Node) > delta.MaxNodeName || c.MaxNodes < 1 || c.PacketSize < minPacket || c.MaxBytes < c.PacketSize {
		return nil, fmt.Errorf("fastlimit/rls: %d nodes, packets of %d bytes, %d in all, are too few, or the name %q is too long", c.MaxNodes, c.PacketSize, c.MaxBytes, c.Node)
	}
	own, err := newCounters(c.Clients, c.Secret)
	if err != nil {
		return nil, err
	}
	n := &Nodes{own: own, config: c, members: map[string]uint64{}, outbox: newOutbox()}
	n.peers.Store(new([]*peer))
	return n, nil
}

// Named reports that hits need no name.
func (*Nodes) Named() bool { return false }

// Add is [Counters.Add] with what the other nodes have counted.
func (n *Nodes) Add(now time.Duration, hits []Hit) error {
	peers := *n.peers.Load()
	return n.own.each(now, hits, func(t *windows, d sketch.Digest, ticks uint64, h *Hit) {
		if state := t.add(d, ticks, h); h.Hits > 0 {
			n.outbox.note(counter{d, h.Unit}, state, h.Hits)
		}
		addPeers(peers, d, ticks, h)
	})
}

// Ask is [Counters.Ask] with what the other nodes have counted.
func (n *Nodes) Ask(now time.Duration, hits []Hit) error {
	peers := *n.peers.Load()
	return n.own.each(now, hits, func(t *windows, d sketch.Digest, ticks uint64, h *Hit) {
		h.Count = sum(level(t.LookupLocked(d), ticks), h.Hits)
		addPeers(peers, d, ticks, h)
	})
}

func addPeers(peers []*peer, d sketch.Digest, ticks uint64, h *Hit) {
	for _, p := range peers {
		if t := p.counts.tables.all[h.Unit].Load(); t != nil {
			h.Count = sum(h.Count, level(t.LookupLocked(d), ticks))
		}
	}
}

// Join makes a node a member: its packets are believed from now on, and it is told what the
// others have been.
func (n *Nodes) Join(node string, incarnation uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.members[node] = incarnation
	n.outbox.recall.Store(true)
}

// Leave ends that. What the node has sent stays.
func (n *Nodes) Leave(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.members, node)
}

// Receive takes what another node says.
func (n *Nodes) Receive(packet []byte) *delta.Rejected {
	n.mu.Lock()
	defer n.mu.Unlock()
	node, reason := n.receiveLocked(packet)
	if reason == accepted {
		return nil
	}
	n.rejected[reason]++
	return &delta.Rejected{Reason: reason, Node: node}
}

func (n *Nodes) receiveLocked(packet []byte) (node string, _ delta.Reason) {
	var h header
	var reason delta.Reason
	if h, n.entries, reason = read(packet, n.entries[:0]); reason != accepted {
		return h.node, reason
	}
	p, reason := n.senderLocked(&h)
	if p == nil {
		return h.node, reason
	}
	now, late := n.config.Now(), false
	for _, e := range n.entries {
		t, err := p.counts.table(e.unit)
		if err != nil {
			return h.node, delta.Malformed
		}
		ticks := t.shape.WindowTicks(now)
		if e.state>>32 > ticks>>32+1 {
			late = true // in a window to come, where it would count until then
			continue
		}
		t.Settle(e.digest, ticks, 0, e.state)
		p.over = max(p.over, time.Duration(e.state>>32+1)*e.unit.Duration())
	}
	if late {
		return h.node, delta.Clock
	}
	return h.node, accepted
}

// senderLocked returns the sender of a packet, or why it is not believed. What a node says
// after it was started anew is kept beside what it sent before.
func (n *Nodes) senderLocked(h *header) (*peer, delta.Reason) {
	incarnation, member := n.members[h.node]
	switch {
	case h.node == n.config.Node:
		return nil, delta.Self
	case slices.Contains(n.config.Ignore, h.node):
		return nil, delta.Ignored
	case !member:
		return nil, delta.UnknownNode
	case incarnation != h.incarnation:
		return nil, delta.StaleIncarnation
	}
	peers := *n.peers.Load()
	for _, p := range peers {
		if p.node == h.node && p.incarnation == h.incarnation {
			return p, accepted
		}
	}
	if len(peers) >= n.config.MaxNodes {
		gone := slices.IndexFunc(peers, n.goneLocked)
		if gone < 0 {
			return nil, delta.TooManyNodes
		}
		n.forgetLocked(func(p *peer) bool { return p == peers[gone] })
		peers = *n.peers.Load()
	}
	p := &peer{node: h.node, incarnation: h.incarnation, counts: &Counters{hasher: n.own.hasher, buckets: n.own.buckets}}
	peers = append(slices.Clip(peers), p)
	n.peers.Store(&peers)
	return p, accepted
}

func (n *Nodes) goneLocked(p *peer) bool { return n.members[p.node] != p.incarnation }

// forgetLocked frees the memory of nodes.
func (n *Nodes) forgetLocked(which func(*peer) bool) {
	peers := slices.DeleteFunc(slices.Clone(*n.peers.Load()), func(p *peer) bool {
		if !which(p) {
			return false
		}
		n.evicted += p.counts.Evictions()
		return true
	})
	n.peers.Store(&peers)
}

// Evictions is [Counters.Evictions], with those of other nodes' counts.
func (n *Nodes) Evictions() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.own.Evictions() + n.evicted
	for _, p := range *n.peers.Load() {
		all += p.counts.Evictions()
	}
	return all
}

// Sweep is [Counters.Sweep]. It forgets nodes that are gone and whose windows are over.
func (n *Nodes) Sweep(now time.Duration) {
	n.own.Sweep(now)
	n.mu.Lock()
	n.forgetLocked(func(p *peer) bool { return p.over <= now && n.goneLocked(p) })
	n.mu.Unlock()
	for _, p := range *n.peers.Load() {
		p.counts.Sweep(now)
	}
}

// Unsent returns how many counters the last Tick had no room for.
func (n *Nodes) Unsent() uint64 { return n.outbox.unsent.Load() }

// Rejected returns how often a packet, or a part of one, was not believed.
func (n *Nodes) Rejected() (all uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.rejected {
		all += r
	}
	return all
}
