package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/liverules"
	"github.com/fastlimit/fastlimit/internal/metrics"
	"github.com/fastlimit/fastlimit/server"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

// startCluster starts the cluster and lets the server show it; nil without one. It
// does not fail if other nodes cannot be reached: a node that is started first, or
// alone, must limit all the same. It fails if its port is taken.
func startCluster(sc *server.Config, cfg *config.Config, kernel *droppers, rules *liverules.Set) (*gossip.Cluster, error) {
	c := cfg.Cluster
	if c == nil {
		return nil, nil
	}
	settings := c.Config
	settings.Logger, settings.BanEnded, settings.Answer = sc.Logger, kernel.ended, rules.Answer
	// Not the context of the command: the cluster has to outlive it, since it keeps
	// exchanging counts while the server drains. node.close ends it.
	running, err := gossip.Start(context.Background(), settings, sc.Limiter)
	if err != nil {
		return nil, err
	}
	rules.Join(running)
	sc.TopTalkers = running // knows those of all nodes; the server alone would show its own
	sc.Collectors = append(sc.Collectors, metrics.Cluster(running.Stats))
	// Not ready while another node has this one's name: see sync/gossip/twins.go.
	sc.Ready = allReady(sc.Ready, running.Ready)
	sc.Cluster = func() server.ClusterInfo {
		return server.ClusterInfo{
			Name: c.Name, Node: running.Node(), Address: running.Advertised().String(),
			MaxNodes: c.MaxNodes, Interval: c.Interval, Lag: c.Lag(), Peers: running.Peers(),
		}
	}
	return running, nil
}

// droppers is the server as the cluster knows it, which starts before it: what a peer has
// unbanned, the kernel forgets.
type droppers struct{ atomic.Pointer[server.Server] }

func (d *droppers) ended(b fastlimit.Ban) {
	s := d.Load()
	if p, ok := b.Prefix(); ok && s != nil {
		s.KernelForgets(p)
	}
}

// fleet is the cluster as the limiter knows it: it tells the peers of bans. Until there is
// one, before the first request, nobody is banned.
type fleet struct{ atomic.Pointer[gossip.Cluster] }

func (f *fleet) banned(b fastlimit.Ban) {
	if c := f.Load(); c != nil {
		c.Banned(b)
	}
}

func (f *fleet) unbanned(b fastlimit.Ban) {
	if c := f.Load(); c != nil {
		c.Unbanned(b)
	}
}

// recall has the peers told of bans that the limiter has taken over.
func (f *fleet) recall() {
	if c := f.Load(); c != nil {
		c.Recall()
	}
}

// both returns a function that calls two, of which the first may be nil.
func both(first, then func(fastlimit.Ban)) func(fastlimit.Ban) {
	if first == nil {
		return then
	}
	return func(b fastlimit.Ban) {
		first(b)
		then(b)
	}
}

// allReady joins the errors of all checks, of which some may be nil. All are asked, so
// that /readyz shows every reason at once.
func allReady(checks ...func() error) func() error {
	return func() error {
		var errs []error
		for _, check := range checks {
			if check != nil {
				errs = append(errs, check())
			}
		}
		return errors.Join(errs...)
	}
}

// clusterAttrs describe the cluster in the log line at the start. "promise" says there
// what operators most often get wrong: without a store, limits are per node.
func clusterAttrs(cfg *config.Config, running *gossip.Cluster) slog.Attr {
	c := cfg.Cluster
	judge := "no redis: each node enforces the limits on its own"
	if s := cfg.Store(); s != nil {
		judge = s.Name + " decides about suspects"
	}
	return slog.Group("cluster",
		slog.String("name", c.Name), slog.String("node", running.Node()), slog.String("bind", running.Addr().String()),
		slog.String("advertise", running.Advertised().String()), slog.Int("max_nodes", c.MaxNodes),
		slog.Duration("lag", c.Lag()), slog.String("promise", judge),
	)
}
