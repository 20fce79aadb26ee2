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

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/toptalkers"
	"github.com/hashicorp/memberlist"
)

// Cluster is this node as part of a cluster: it sends the limiter's counts to its
// peers and charges theirs to the limiter. Safe for concurrent use. The zero value
// is not usable: call [Start].
type Cluster struct {
	config    Config
	counts    *counts
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

// Start binds the address, then looks for the other nodes and exchanges counts with them in
// the background. Unreachable nodes are not an error: this node starts alone, logs that
// once and keeps trying. The limiter's secret must be that of [LimiterSecret]. Call Close
// before dropping the limiter. If ctx ends, the loops end without a farewell to the other
// nodes.
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
	m.twins.ask = t.asking(c.Node, incarnation, at)
	t.answer = func(message []byte) []byte {
		if isQuestion(message) {
			return m.twins.answer(message)
		}
		if t.silent.Load() {
			return nil
		}
		return m.told(message)
	}
	t.merge = m.receive
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

// Follow makes the cluster exchange counts and bans of a limiter that has taken over the
// state of the previous one ([fastlimit.Limiter.With]), from the next tick on.
func (c *Cluster) Follow(lim *fastlimit.Limiter) { c.counts.follow(lim) }

// Recall sends all bans in force to the peers, as [Cluster.Follow] does. Call it after a
// merge ([fastlimit.Limiter.Merge]).
func (c *Cluster) Recall() { c.counts.state.Recall(c.counts.now()) }

// joinAt exchanges lists of members with the node at an address.
func (c *Cluster) joinAt(at netip.AddrPort) error {
	_, err := c.list.Join([]string{at.String()})
	return err
}

// yield silences this node in favor of an older one of the same name, or ends that.
// To its peers a silenced node looks dead.
func (c *Cluster) yield(yields bool) {
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
func (c *Cluster) Ready() error {
	if other, ok := c.members.twins.yieldsTo(); ok {
		return fmt.Errorf("cluster: the node at %v has the name %q too and started before this one: set cluster.node to a name of its own on each", other, c.config.Node)
	}
	return nil
}

// Addr returns the bound address, with the actual port if Config.Bind has port 0.
func (c *Cluster) Addr() netip.AddrPort { return c.transport.addr() }

// Advertised returns the address at which the other nodes reach this one.
func (c *Cluster) Advertised() netip.AddrPort { return c.at }

// Node returns the name of this node.
func (c *Cluster) Node() string { return c.config.Node }

// Peers returns the names of the other nodes that are up, sorted.
func (c *Cluster) Peers() []string {
	var all []string
	for _, n := range c.members.list() {
		all = append(all, n.Name)
	}
	return all
}

// Away returns the names of nodes that were up and went without a farewell, sorted.
func (c *Cluster) Away() []string {
	c.members.mu.Lock()
	defer c.members.mu.Unlock()
	return slices.Sorted(maps.Keys(c.members.lost))
}

// Top returns the n clients with the highest rates over all nodes, as far as this
// node knows.
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

// send sends the packets of a tick to every peer. Each tick starts with a different
// peer, so that a budget too small for all starves none of them.
func (c *Cluster) send() {
	if c.transport.silent.Load() {
		return
	}
	counts, bans := c.counts.tick()
	peers := c.members.list()
	c.next++
	for i := range peers {
		p := &peers[(c.next+i)%len(peers)]
		if c.sendTo(p, counts) && p.DMax >= knowsBans {
			c.sendTo(p, bans)
		}
	}
}

// sendTo reports whether all packets were sent. After an error the rest would fail too;
// both kinds repeat what a peer has missed.
func (c *Cluster) sendTo(peer *memberlist.Node, packets [][]byte) bool {
	for _, p := range packets {
		if err := c.list.SendBestEffort(peer, p); err != nil {
			return false
		}
	}
	return true
}

// sendFarewell tells every peer that this node leaves, twice, since packets get
// lost. A peer that misses both searches for this node for a while.
func (c *Cluster) sendFarewell() {
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
func (c *Cluster) Close() {
	c.ended.Do(func() { c.end(true) })
}

func (c *Cluster) end(farewell bool) {
	c.cancel()
	c.transport.stopDials()
	c.loops.Wait()
	if farewell {
		c.send() // counts since the last tick, else worth up to a burst per client elsewhere
		c.sendFarewell()
		if err := c.list.Leave(leaveTimeout); err != nil { // peers will detect the failure
			c.config.Logger.Warn("cluster: left without a word", slog.Any("error", err))
		} else {
			c.config.Logger.Info("cluster: left")
		}
	}
	_ = c.list.Shutdown()
}
