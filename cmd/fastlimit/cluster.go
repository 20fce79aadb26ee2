package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/metrics"
	"github.com/fastlimit/fastlimit/server"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

// startCluster starts the cluster and lets the server show it, if there is to be one. It
// does not fail if other nodes cannot be reached: a node that is started first, or
// alone, must limit all the same. It fails if its port is taken, unless by the process that this
// one replaces: then it is joined when that has ended, by joinLater.
func (n *node) startCluster(sc *server.Config) error {
	c := n.cfg.Cluster
	if c == nil {
		return nil
	}
	sc.Collectors = append(sc.Collectors, metrics.Cluster(n.fleet.stats))
	sc.Cluster = func() server.ClusterInfo {
		i := server.ClusterInfo{Name: c.Name, MaxNodes: c.MaxNodes, Interval: c.Interval, Lag: c.Lag()}
		if running := n.fleet.Load(); running != nil {
			i.Node, i.Address, i.Peers = running.Node(), running.Advertised().String(), running.Peers()
		}
		return i
	}
	err := n.join(sc.Limiter)
	if errors.Is(err, syscall.EADDRINUSE) && n.cfg.Server.ReusesPort() {
		n.log.Info("another process has the port of the cluster: it is joined when that ends", slog.String("bind", c.Bind))
		return nil
	}
	n.among(sc)
	return err
}

// join starts the cluster. Not with the context of the command: it keeps exchanging counts while
// the server drains. node.close ends it.
func (n *node) join(l *fastlimit.Limiter) error {
	settings := n.cfg.Cluster.Config
	settings.Logger, settings.BanEnded, settings.Answer = n.log, n.kernel.ended, n.rules.Answer
	running, err := gossip.Start(context.Background(), settings, l)
	if err != nil {
		return err
	}
	n.rules.Join(running)
	n.cluster = running
	n.fleet.Store(running)
	return nil
}

// among has the server show the clients of all nodes, in place of its own alone, and not be ready
// while another node has this one's name: see sync/gossip/twins.go.
func (n *node) among(sc *server.Config) {
	if n.cluster != nil {
		sc.TopTalkers, sc.Ready = n.cluster, allReady(sc.Ready, n.cluster.Ready)
	}
}

// joinEvery is how long a node waits until it tries to join again.
const joinEvery = 200 * time.Millisecond

// joinLater joins the cluster when its port is free, and has all that was made without one know of it.
func (n *node) joinLater() (stop func()) {
	joined := n.cfg.Cluster == nil || n.cluster != nil
	return background(func(ctx context.Context) {
		for said := ""; !joined; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(joinEvery):
			}
			var err error
			if joined, err = n.joinNow(); err != nil && err.Error() != said {
				said = err.Error()
				n.log.Error("the cluster cannot be joined; trying again", slog.Any("error", err))
			}
		}
	})
}

// joinNow reports false if it is to be tried again: while the port is taken, and before requests are served.
func (n *node) joinNow() (joined bool, err error) {
	n.reloading.Lock()
	if n.cluster == nil {
		if err := n.join(n.limiter); err != nil {
			n.reloading.Unlock()
			if errors.Is(err, syscall.EADDRINUSE) {
				err = nil
			}
			return false, err
		}
	}
	sc, attrs := n.made, clusterAttrs(n.cfg, n.cluster)
	n.lists.close() // else it might give the engine before what it reads now
	err = n.hold(n.cfg, &sc, func(c server.Config) error {
		c.Engine = c.Engine.WithLists(n.server.Lists()) // their files may have changed since the configuration was read
		return n.server.Reload(c)
	})
	n.lists.start(n.server.SetLists)
	n.reloading.Unlock()
	if errors.Is(err, server.ErrNotServing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n.stopRules() // to follow those of others too
	n.startRules()
	n.fleet.recall()
	n.log.Info("joined the cluster", attrs)
	return true, nil
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

func (f *fleet) stats() (s gossip.Stats) {
	if c := f.Load(); c != nil {
		s = c.Stats()
	}
	return s
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
