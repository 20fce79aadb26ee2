package gossip

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/toptalkers"
	"github.com/hashicorp/memberlist"
)

// Cluster is this node in a cluster: it sends its peers what the limiter counts
// and charges what they send. Safe for concurrent use. The zero value is not
// usable: call [Start].
type Cluster struct {
	config    Config
	counts    *counts
	journal   *journal
	members   *members
	transport *transport
	list      *memberlist.Memberlist
	at        netip.AddrPort // where the others reach this node
	first     int            // peer of the tick; send alone

	cancel context.CancelFunc
	loops  sync.WaitGroup
	ended  sync.Once
}

// Start binds the address, and begins to look for the other nodes and to
// exchange counts with them. Nodes that are not there are no error: this one
// starts alone, says so once and keeps trying. The limiter must have the
// secret that [LimiterSecret] makes. End the cluster with Close before the
// limiter is dropped; the end of ctx ends the loops, without a word to the others.
func Start(ctx context.Context, c Config, lim *fastlimit.Limiter) (*Cluster, error) {
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
	x, err := newCounts(&c, incarnation, lim)
	if err != nil {
		_ = t.Shutdown()
		return nil, err
	}
	m := newMembers(&c, incarnation, j, x)
	m.twins.ask, t.asked = t.asking(c.Node, incarnation, at), m.twins.answer
	t.merge = m.NotifyMsg
	t.run()
	list, err := memberlist.Create(c.memberlistConfig(t, m, j, at))
	if err != nil {
		_ = t.Shutdown()
		return nil, fmt.Errorf("fastlimit/sync/gossip: cluster bind %s: %w", c.Bind, err)
	}
	cl := &Cluster{config: c, counts: x, journal: j, members: m, transport: t, list: list, at: at}
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

// joinAt exchanges lists of members with whoever is at an address.
func (c *Cluster) joinAt(at netip.AddrPort) error {
	_, err := c.list.Join([]string{at.String()})
	return err
}

// yield takes this node out of the cluster, whose other node of this name goes
// on, and back. The others miss it then, as they would if it had died.
func (c *Cluster) yield(yields bool) {
	c.transport.silent.Store(yields)
	if yields {
		return
	}
	// The others hear that it is there, or it hears from them what they lack.
	_ = c.list.UpdateNode(leaveTimeout)
	select {
	case c.members.nudge <- struct{}{}:
	default:
	}
}

// Ready returns in its error why this node must not get requests: another one
// has its name, and started before it. What one of the two counts the others
// would not believe, and a client could have up to twice its rate.
func (c *Cluster) Ready() error {
	if other, ok := c.members.twins.yieldsTo(); ok {
		return fmt.Errorf("cluster: the node at %v has the name %q too and started before this one: set cluster.node to a name of its own on each", other, c.config.Node)
	}
	return nil
}

// Addr is the bound address, port 0 resolved.
func (c *Cluster) Addr() netip.AddrPort { return c.transport.addr() }

// Advertised is the address at which the others reach this node.
func (c *Cluster) Advertised() netip.AddrPort {
	return c.at
}

// Node is the name of this node.
func (c *Cluster) Node() string { return c.config.Node }

// Peers are the names of the other nodes that are up, sorted.
func (c *Cluster) Peers() []string {
	var all []string
	for _, n := range c.members.list() {
		all = append(all, n.Name)
	}
	return all
}

// Top returns the clients with the highest rates in all nodes, as far as they
// are known here.
func (c *Cluster) Top(n int) []toptalkers.Talker { return c.counts.top(n) }

// tick sends the counts until ctx ends.
func (c *Cluster) tick(ctx context.Context) {
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

// send hands the packets of a tick to every peer. The next tick begins with
// another one: if not all of it may be sent, none goes without for ever.
func (c *Cluster) send() {
	if c.transport.silent.Load() {
		return
	}
	packets := c.counts.tick()
	peers := c.members.list()
	c.first++
	for i := range peers {
		for _, p := range packets {
			if err := c.list.SendBestEffort(&peers[(c.first+i)%len(peers)], p); err != nil {
				break // of no use to this peer now; what it missed comes again
			}
		}
	}
}

// sendFarewell informs every peer that this node leaves, twice: packets get lost.
func (c *Cluster) sendFarewell() {
	peers := c.members.list()
	word := c.members.appendFarewell(nil)
	for range 2 {
		for i := range peers {
			_ = c.list.SendBestEffort(&peers[i], word) // else they look for it for a while
		}
	}
}

// leaveTimeout is for the news to reach a peer.
const leaveTimeout = time.Second

// Close informs the peers that this node leaves, and ends all goroutines; a probe
// that memberlist waits for ends by itself within seconds. It takes about a
// second at most. It may be called again.
func (c *Cluster) Close() {
	c.ended.Do(func() { c.end(true) })
}

func (c *Cluster) end(farewell bool) {
	c.cancel()
	c.transport.stopDials()
	c.loops.Wait()
	if farewell {
		c.send() // what nobody would know of otherwise, which costs a burst
		c.sendFarewell()
		if err := c.list.Leave(leaveTimeout); err != nil { // else they find out
			c.config.Logger.Warn("cluster: left without a word", slog.Any("error", err))
		} else {
			c.config.Logger.Info("cluster: left")
		}
	}
	_ = c.list.Shutdown()
}
