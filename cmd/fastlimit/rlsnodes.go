package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/count"
	"github.com/fastlimit/fastlimit/internal/rls/stats"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

// join starts the exchange of counts with the other nodes, and returns the counts. Nodes that
// cannot be reached are no error: one that is started first, or alone, counts all the same.
func (n *rlsNode) join() (*count.Nodes, error) {
	c := *n.settings.Cluster
	c.Logger = n.log
	c = c.WithDefaults()
	var counts *count.Nodes
	// Not the context of the command: counts are exchanged while calls drain. close ends it.
	nodes, err := gossip.StartNodes(context.Background(), c, func(self gossip.Self) (_ gossip.Exchange, err error) {
		counts, err = count.NewNodes(count.NodesConfig{
			Clients: n.settings.Clients, Secret: gossip.LimiterSecret(c.Name, c.Secret), MaxNodes: c.MaxNodes, MaxBytes: c.MaxBytes, Ignore: c.Ignore,
			Node: self.Node, Incarnation: self.Incarnation, PacketSize: self.PacketSize,
			Now: func() time.Duration { return time.Duration(time.Now().UnixNano()) },
		})
		return counts, err
	})
	if err != nil {
		return nil, err
	}
	n.memory, n.nodes = counts, nodes
	n.exchange = func() stats.Cluster {
		all := stats.Cluster{Peers: len(nodes.Peers()), Unsent: counts.Unsent(), Rejected: counts.Rejected()}
		for _, dropped := range nodes.Stats().Rejected {
			all.Rejected += dropped
		}
		return all
	}
	n.log.Warn("counting with other nodes", slog.String("cluster", c.Name), slog.String("node", nodes.Node()), slog.String("bind", nodes.Addr().String()),
		slog.String("promise", fmt.Sprintf("a client gets its limit, and what the other nodes admit of it within %v; never more than the limit at each of them", 2*c.Interval)))
	return counts, nil
}
