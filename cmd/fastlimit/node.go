package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/lists"
	"github.com/fastlimit/fastlimit/internal/overrides"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

// node is a server and everything it is built from. It owns the store and the cluster,
// which the limiter and the server only use. Set up once; its fields do not change.
type node struct {
	cfg *config.Config
	log *slog.Logger

	store   *store // nil: buckets are in memory
	state   *state // nil: a restart forgets
	limiter *fastlimit.Limiter
	plan    fastlimit.Plan
	cluster *gossip.Cluster // nil: there is none
	fleet   fleet           // the cluster for the limiter, which is made before it
	kernel  droppers        // the server for the cluster, likewise
	memory  server.GoMemory // limits in force, as /v1/info shows them
	server  *server.Server

	overrides     *overrides.Set
	stopOverrides func() // nil: not started

	bans *bans.Set
	feed *feed.Feed // nil: the kernel drops nothing

	lists     *lists.Set // nil: no list is in a file
	stopLists func()     // nil: not started
}

// newNode builds a node, each part from those above it. It opens the store and
// starts the cluster, but listens nowhere; close it after use.
func newNode(ctx context.Context, cfg *config.Config, log *slog.Logger, sink *logSink, sys *system) (_ *node, err error) {
	n := &node{cfg: cfg, log: log}
	defer func() {
		if err != nil { // the store may be connected and the cluster running already
			n.close()
		}
	}()
	if n.store, err = openStore(ctx, cfg, log); err != nil {
		return nil, err
	}
	if n.state, err = openState(cfg, log); err != nil {
		return nil, err
	}
	if n.limiter, err = n.state.newLimiter(n.limiterConfig()); err != nil {
		return nil, err
	}
	n.plan = n.limiter.Plan() // with what New has rounded and filled in
	// The same warnings as validate prints: not everybody runs it.
	for _, w := range config.Warnings(cfg, &n.plan) {
		log.Warn(w)
	}
	sc := cfg.Server
	sc.Limiter, sc.Logger, sc.LostLogs = n.limiter, log, sink.lost.Load
	sc.Version, sc.GoMemory = version().version, &n.memory
	sc.DenialLogs = cmp.Or(sc.DenialLogs, -1) // 0 is none in the file, but the default for the server
	if sc.Engine, err = policy.New(n.limiter, cfg.Policy); err != nil {
		return nil, err
	}
	if sc.Identity, err = policy.NewIdentity(cfg.Policy); err != nil {
		return nil, err
	}
	// The store comes before the cluster, whose check of readiness is added to its.
	if n.store != nil {
		n.store.show(&sc)
	}
	n.overrides, n.bans, n.lists = newOverrides(n, &sc), newBans(n, &sc), newLists(n, &sc)
	newKernel(n, &sc)
	if n.state != nil {
		n.state.show(&sc)
	}
	// Before the cluster starts: what peers send is to be received within the limits.
	n.memory = limitMemory(plannedMemory(cfg, &n.plan, &sc), sys.lookupEnv)
	if n.cluster, err = startCluster(&sc, cfg, &n.kernel); err != nil {
		return nil, err
	}
	n.fleet.Store(n.cluster)
	if n.server, err = server.New(sc); err != nil {
		return nil, err
	}
	n.kernel.Store(n.server)
	n.startOverrides()
	n.bans.Start(n.server)
	if n.state != nil {
		n.state.start(n.bans)
	}
	n.startLists()
	return n, nil
}

// limiterConfig is the file's, with the store and the secret that nodes share. The
// secret keys the digests of clients. Nodes with different ones could not compare counts,
// so it derives from the cluster's; alone, a node has a random one.
func (n *node) limiterConfig() fastlimit.Config {
	lc := n.cfg.Limiter()
	if n.store != nil {
		lc.Store = n.store.Store
	}
	lc.OnBan = func(b fastlimit.Ban) { n.server.Banned(b) } // nobody is before there is one
	if c := n.cfg.Cluster; c != nil {
		lc.Secret = gossip.LimiterSecret(c.Name, c.Secret)
		lc.OnBan, lc.OnUnban = both(lc.OnBan, n.fleet.banned), both(lc.OnUnban, n.fleet.unbanned)
	}
	return lc
}

// close stops what newNode has started, the last first. Call it after the server has
// stopped: its last requests use both. What they refunded is still sent to the store.
func (n *node) close() {
	n.state.close()
	if n.stopLists != nil {
		n.stopLists()
	}
	if n.stopOverrides != nil {
		n.stopOverrides()
	}
	n.closeKernel()
	if n.cluster != nil {
		n.cluster.Close()
	}
	if n.store != nil {
		n.store.close(n.log)
	}
}

// startAttrs are what operators want to read back from the log: the addresses, and
// the most that each rule admits of a client (P2). Port 0 and defaults are resolved: the
// line says what is in force, not what the file says.
func (n *node) startAttrs() []any {
	var rules []any
	for i := range n.plan.Rules {
		rp := &n.plan.Rules[i]
		text := fmt.Sprintf("%s %v; a client gets at most %s", config.Limit(&rp.Config), rp.Config.Mode, config.AtMost(rp))
		if n.cluster != nil {
			text += "; from all nodes together " + n.cfg.Cluster.Bound(rp)
		}
		rules = append(rules, slog.String(rp.Config.Name, text))
	}
	attrs := []any{
		slog.String("listen", joinAddrs(n.server.Addrs())), slog.String("admin", joinAddrs([]net.Addr{n.server.AdminAddr()})),
		slog.String("version", version().version), slog.Int64("memory", n.plan.Memory), slog.Group("rules", rules...),
	}
	if u := n.cfg.Server.Upstream; u != nil {
		attrs = append(attrs, slog.String("upstream", strings.Join(u.URLs, " ")))
	}
	if n.cluster != nil {
		attrs = append(attrs, clusterAttrs(n.cfg, n.cluster))
	}
	attrs = append(attrs, n.kernelAttrs()...)
	return append(attrs, memoryAttrs(n.memory)...)
}

// joinAddrs skips nil: there is no admin listener if its address is empty.
func joinAddrs(addrs []net.Addr) string {
	var all []string
	for _, a := range addrs {
		if a != nil {
			all = append(all, a.String())
		}
	}
	return strings.Join(all, ",")
}
