package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/syncmetrics"
	"github.com/fastlimit/fastlimit/server"
	"github.com/fastlimit/fastlimit/sync/delta"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

// addTalkers shows who asks most, and starts the cluster, if there is one: what
// it tracks individually is what it exchanges. nil: there is none. Nodes that are
// not there are no reason not to serve.
func addTalkers(sc *server.Config, cfg *config.Config) (*gossip.Cluster, error) {
	c := cfg.Cluster
	if c == nil {
		if cfg.TopTalkers == 0 {
			return nil, nil
		}
		var err error
		sc.Talkers, sc.Tick, err = localTalkers(sc.Limiter)
		return nil, err
	}
	settings := c.Config
	settings.Logger = sc.Logger
	running, err := gossip.Start(context.Background(), settings, sc.Limiter)
	if err != nil {
		return nil, err
	}
	sc.Talkers = talkers(running.Top)
	sc.Collectors = append(sc.Collectors, syncmetrics.New(running.Stats))
	sc.Ready = allReady(sc.Ready, running.Ready)
	sc.Cluster = func() server.ClusterInfo {
		return server.ClusterInfo{
			Name: c.Name, Node: running.Node(), Address: running.Advertised().String(),
			MaxNodes: c.MaxNodes, Interval: c.Interval, Peers: running.Peers(),
		}
	}
	return running, nil
}

// allReady joins what each of the checks says; nil ones say nothing.
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

// clusterAttrs are what the start line says of the cluster.
func clusterAttrs(cfg *config.Config, running *gossip.Cluster) slog.Attr {
	c := cfg.Cluster
	judge := "redis judges whom the nodes suspect"
	if cfg.Redis == nil {
		judge = "each node keeps the limits by itself, as there is no redis"
	}
	return slog.Group("cluster",
		slog.String("name", c.Name), slog.String("node", running.Node()), slog.String("bind", running.Addr().String()),
		slog.String("advertise", running.Advertised().String()), slog.Int("max_nodes", c.MaxNodes),
		slog.Duration("lag", c.Lag()), slog.String("promise", judge),
	)
}

// talkers shows who asks most to the server, which knows nothing of nodes.
type talkers func(n int) []delta.Talker

// Top implements server.Talkers.
func (t talkers) Top(n int) []server.Talker {
	var all []server.Talker
	for _, c := range t(n) {
		all = append(all, server.Talker(c))
	}
	return all
}

// localTalkers knows who asks this node most. tick is to be called once a
// second.
func localTalkers(lim *fastlimit.Limiter) (top talkers, tick func(), err error) {
	c := delta.Config{Cluster: "none", Node: "this"}
	if host, err := os.Hostname(); err == nil {
		c.Node = host
	}
	for _, r := range lim.Rules() {
		c.Rules = append(c.Rules, r)
	}
	s, err := delta.New(c)
	if err != nil {
		return nil, nil, err
	}
	return func(n int) []delta.Talker { return s.Top(n, lim.Now()) }, func() { s.Tick(lim.Now()) }, nil
}
