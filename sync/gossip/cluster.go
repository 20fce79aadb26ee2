package gossip

import (
	"context"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/toptalkers"
)

// Cluster is this node as part of a cluster: it sends the limiter's counts to its
// peers and charges theirs to the limiter. Safe for concurrent use. The zero value
// is not usable: call [Start].
type Cluster struct {
	*Nodes

	counts *counts
}

// Start binds the address, then looks for the other nodes and exchanges counts with them in
// the background. Unreachable nodes are not an error: this node starts alone, logs that
// once and keeps trying. The limiter's secret must be that of [LimiterSecret]. Call Close
// before dropping the limiter. If ctx ends, the loops end without a farewell to the other
// nodes.
func Start(ctx context.Context, c Config, lim *fastlimit.Limiter) (*Cluster, error) {
	var x *counts
	n, err := start(ctx, c, func(c *Config, incarnation uint64) (_ Exchange, err error) {
		x, err = newCounts(c, incarnation, lim)
		return x, err
	})
	if err != nil {
		return nil, err
	}
	return &Cluster{n, x}, nil
}

// Follow makes the cluster exchange counts and bans of a limiter that has taken over the
// state of the previous one ([fastlimit.Limiter.With]), from the next tick on.
func (c *Cluster) Follow(lim *fastlimit.Limiter) { c.counts.follow(lim) }

// Recall sends all bans in force to the peers, as [Cluster.Follow] does. Call it after a
// merge ([fastlimit.Limiter.Merge]).
func (c *Cluster) Recall() { c.counts.state.Recall(c.counts.now()) }

// Top returns the n clients with the highest rates over all nodes, as far as this
// node knows.
func (c *Cluster) Top(n int) []toptalkers.Talker { return c.counts.top(n) }
