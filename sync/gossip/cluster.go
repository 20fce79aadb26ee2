package gossip

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/sync/delta"
	"github.com/hashicorp/memberlist"
)

// Cluster is this node in a cluster: it tells its peers what the limiter sees
// and charges what they tell. Safe for concurrent use. The zero value is not
// usable: call [Start].
type Cluster struct {
	config    Config
	counts    *counts
	journal   *journal
	members   *members
	transport *transport
	list      *memberlist.Memberlist
	at        netip.AddrPort // what the others are told

	cancel context.CancelFunc
	loops  sync.WaitGroup
	ended  sync.Once
}

// Start binds the address, and begins to look for the other nodes and to
// exchange counts with them. Nodes that are not there are no error: this one
// starts alone, says so once and keeps trying. The limiter must have the
// secret that [LimiterSecret] makes. End the cluster with Close before the
// limiter is dropped; the end of ctx ends the loops, but tells nobody.
func Start(ctx context.Context, c Config, lim *fastlimit.Limiter) (*Cluster, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	j := newJournal(c.Logger, time.Now)
	t, err := newTransport(c.Bind, c.MaxNodes, j.refuse)
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
	incarnation := randomIncarnation()
	x, err := newCounts(&c, incarnation, lim)
	if err != nil {
		_ = t.Shutdown()
		return nil, err
	}
	m := newMembers(&c, incarnation, j, x)
	t.run()
	list, err := memberlist.Create(c.memberlistConfig(t, m, j, at))
	if err != nil {
		_ = t.Shutdown()
		return nil, fmt.Errorf("fastlimit/sync/gossip: cluster bind %s: %w", c.Bind, err)
	}
	cl := &Cluster{config: c, counts: x, journal: j, members: m, transport: t, list: list, at: at}
	ctx, cl.cancel = context.WithCancel(ctx)
	cl.loops.Go(func() { cl.tick(ctx) })
	cl.loops.Go(func() { cl.join(ctx) })
	return cl, nil
}

func randomIncarnation() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
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
func (c *Cluster) Top(n int) []delta.Talker { return c.counts.top(n) }

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

// send hands the packets of a tick to every peer.
func (c *Cluster) send() {
	packets := c.counts.tick()
	peers := c.members.list()
	for i := range peers {
		for _, p := range packets {
			if err := c.list.SendBestEffort(&peers[i], p); err != nil {
				c.journal.refuse(reasonNetwork, nil)
				break // of no use to this peer now; what it missed comes again
			}
		}
	}
}

// leaveTimeout is for the news to reach a peer.
const leaveTimeout = time.Second

// Close tells the peers that this node leaves, and ends all goroutines; a probe
// that memberlist waits for ends by itself within seconds. It takes about a
// second at most. It may be called again.
func (c *Cluster) Close() {
	c.ended.Do(func() { c.end(true) })
}

func (c *Cluster) end(tell bool) {
	c.cancel()
	c.transport.stopDials()
	c.loops.Wait()
	if tell {
		c.send()                                           // what nobody would know of otherwise, which costs a burst
		if err := c.list.Leave(leaveTimeout); err != nil { // else they find out
			c.config.Logger.Warn("cluster: left without a word", slog.Any("error", err))
		} else {
			c.config.Logger.Info("cluster: left")
		}
	}
	_ = c.list.Shutdown()
}
