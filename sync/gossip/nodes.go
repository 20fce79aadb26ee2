package gossip

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/sync/delta"
	"github.com/hashicorp/memberlist"
)

// Nodes is this node among the others of a cluster, to which it sends what an [Exchange] has
// to say. Safe for concurrent use. The zero value is not usable: call [StartNodes].
type Nodes struct {
	config    Config
	exchange  Exchange
	journal   *journal
	members   *members
	transport *transport
	list      *memberlist.Memberlist
	at        netip.AddrPort // where the others reach this node
	next      int            // peer that the next tick begins with; used by send only

	cancel context.CancelFunc
	loops  sync.WaitGroup
	ended  sync.Once
}

// Exchange is what nodes have to say to each other, in packets that may be lost, late, repeated
// or replayed. [Cluster] exchanges a limiter's counts and bans. Implementations are safe for
// concurrent use, and call no method of [Nodes].
type Exchange interface {
	// Tick returns the packets for every peer, and those for peers that know bans. They are
	// valid until the next call.
	Tick() (packets, bans [][]byte)
	// Receive takes a packet of another node, which it does not keep.
	Receive(packet []byte) *delta.Rejected
	// Join and Leave say which nodes are members, and the incarnation that each has.
	Join(node string, incarnation uint64)
	Leave(node string)
}

// Self is how a node names itself in its packets.
type Self struct {
	Node        string
	Incarnation uint64 // of this run
	PacketSize  int    // the most bytes of a packet
}

// StartNodes is [Start] for what another Exchange has to say, which open makes. Programs with
// different ones must not share the name of a cluster: each drops the packets of the other.
func StartNodes(ctx context.Context, c Config, open func(Self) (Exchange, error)) (*Nodes, error) {
	return start(ctx, c, func(c *Config, incarnation uint64) (Exchange, error) {
		return open(Self{Node: c.Node, Incarnation: incarnation, PacketSize: c.payload()})
	})
}

func start(ctx context.Context, c Config, open func(c *Config, incarnation uint64) (Exchange, error)) (*Nodes, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	j := newJournal(c.Logger, time.Now)
	t, err := newTransport(&c, j.refuse)
	if err != nil {
		return nil, err
	}
	at, err := t.advertise(c.Advertise)
	if err != nil {
		_ = t.Shutdown()
		return nil, err
	}
	if c.Node == "" {
		c.Node = at.String()
	}
	incarnation := incarnationOf(time.Now())
	x, err := open(&c, incarnation)
	if err != nil {
		_ = t.Shutdown()
		return nil, err
	}
	m := newMembers(&c, incarnation, j, x)
	m.twins.ask = t.asking(c.Node, incarnation, at)
	t.answer = func(message []byte) []byte {
		if isQuestion(message) {
			return m.twins.answer(message)
		}
		if t.silent.Load() {
			return nil
		}
		return m.answerTo(message)
	}
	t.merge = m.receive
	t.run()
	list, err := memberlist.Create(c.memberlistConfig(t, m, j, at))
	if err != nil {
		_ = t.Shutdown()
		return nil, fmt.Errorf("fastlimit/sync/gossip: cluster bind %s: %w", c.Bind, err)
	}
	cl := &Nodes{config: c, exchange: x, journal: j, members: m, transport: t, list: list, at: at}
	m.twins.changed = cl.yield
	join := &joiner{
		seeds: c.Join, self: []netip.AddrPort{cl.Addr(), at}, members: m, log: c.Logger,
		resolve: resolve, join: cl.joinAt, idle: t.silent.Load, found: map[string][]netip.AddrPort{},
	}
	ctx, cl.cancel = context.WithCancel(ctx)
	cl.loops.Go(func() { cl.tick(ctx) })
	cl.loops.Go(func() { join.run(ctx) })
	cl.loops.Go(func() { m.twins.run(ctx) })
	return cl, nil
}

// joinAt exchanges lists of members with the node at an address.
func (c *Nodes) joinAt(at netip.AddrPort) error {
	_, err := c.list.Join([]string{at.String()})
	return err
}

// yield silences this node in favor of an older one of the same name, or ends that.
// To its peers a silenced node looks dead.
func (c *Nodes) yield(yields bool) {
	c.transport.silent.Store(yields)
	if yields {
		return
	}
	// Announces this node again to the peers it still knows; join finds the others.
	_ = c.list.UpdateNode(leaveTimeout)
	wake(c.members.nudge)
}

// wake makes the receiver of c, a channel of capacity 1, run soon. It does not
// block: a wake-up that is already pending is enough.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Ready returns an error if this node must not get requests: another node has its
// name and started before it. Peers drop the counts of one of the two, so a client
// could get up to twice its rate.
func (c *Nodes) Ready() error {
	if other, ok := c.members.twins.yieldsTo(); ok {
		return fmt.Errorf("cluster: the node at %v has the name %q too and started before this one: set cluster.node to a name of its own on each", other, c.config.Node)
	}
	return nil
}

// Addr returns the bound address, with the actual port if Config.Bind has port 0.
func (c *Nodes) Addr() netip.AddrPort { return c.transport.addr() }

// Advertised returns the address at which the other nodes reach this one.
func (c *Nodes) Advertised() netip.AddrPort { return c.at }

// Node returns the name of this node.
func (c *Nodes) Node() string { return c.config.Node }

// Peers returns the names of the other nodes that are up, sorted.
func (c *Nodes) Peers() []string {
	var all []string
	for _, n := range c.members.list() {
		all = append(all, n.Name)
	}
	return all
}

// Away returns the names of nodes that were up and went without a farewell, sorted.
func (c *Nodes) Away() []string {
	c.members.mu.Lock()
	defer c.members.mu.Unlock()
	return slices.Sorted(maps.Keys(c.members.lost))
}

// tick sends what there is to say until ctx ends.
func (c *Nodes) tick(ctx context.Context) {
	t := time.NewTicker(c.config.Interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			c.send()
		}
	}
}

// send sends the packets of a tick to every peer. Each tick starts with a different
// peer, so that a budget too small for all starves none of them.
func (c *Nodes) send() {
	if c.transport.silent.Load() {
		return
	}
	packets, bans := c.exchange.Tick()
	peers := c.members.list()
	c.next++
	for i := range peers {
		p := &peers[(c.next+i)%len(peers)]
		if c.sendTo(p, packets) && p.DMax >= knowsBans {
			c.sendTo(p, bans)
		}
	}
}

// sendTo reports whether all packets were sent. After an error the rest would fail too;
// both kinds repeat what a peer has missed.
func (c *Nodes) sendTo(peer *memberlist.Node, packets [][]byte) bool {
	for _, p := range packets {
		if err := c.list.SendBestEffort(peer, p); err != nil {
			return false
		}
	}
	return true
}

// sendFarewell tells every peer that this node leaves, twice, since packets get
// lost. A peer that misses both searches for this node for a while.
func (c *Nodes) sendFarewell() {
	peers := c.members.list()
	message := c.members.appendFarewell(nil)
	for range 2 {
		for i := range peers {
			_ = c.list.SendBestEffort(&peers[i], message)
		}
	}
}

// leaveTimeout bounds the wait for a broadcast to reach a peer.
const leaveTimeout = time.Second

// Close tells the peers that this node leaves, and ends all goroutines within about
// a second, except for a probe in flight, which memberlist ends after a few seconds.
// Further calls do nothing.
func (c *Nodes) Close() {
	c.ended.Do(func() { c.end(true) })
}

func (c *Nodes) end(farewell bool) {
	c.cancel()
	c.transport.stopDials()
	c.loops.Wait()
	if farewell {
		c.send() // what came since the last tick: counts are worth up to a burst per client elsewhere
		c.sendFarewell()
		if err := c.list.Leave(leaveTimeout); err != nil { // peers will detect the failure
			c.config.Logger.Warn("cluster: left without a word", slog.Any("error", err))
		} else {
			c.config.Logger.Info("cluster: left")
		}
	}
	_ = c.list.Shutdown()
}
