package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/internal/audit"
	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/liverules"
	"github.com/fastlimit/fastlimit/internal/metrics"
	"github.com/fastlimit/fastlimit/internal/overrides"
	"github.com/fastlimit/fastlimit/internal/systemd"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

// node is a server and everything it is built from. It owns the store and the cluster,
// which the limiter and the server only use. What a reload replaces is guarded by reloading.
type node struct {
	log  *slog.Logger
	sys  *system
	load func() (*config.Config, error) // reads the configuration again

	reloading sync.Mutex
	cfg       *config.Config
	limiter   *fastlimit.Limiter
	plan      fastlimit.Plan
	memory    server.GoMemory // limits in force, as /v1/info shows them
	made      server.Config   // of the server
	lists     follower

	store   *store          // nil: buckets are in memory
	state   *state          // nil: a restart forgets
	cluster *gossip.Cluster // nil: there is none
	fleet   fleet           // the cluster for the limiter, which is made before it
	kernel  droppers        // the server for the cluster, likewise
	manager systemd.Notifier
	server  *server.Server
	reloads reloads

	overrides     *overrides.Set
	stopOverrides func() // nil: not started

	rules       *liverules.Set
	stopRules   func() // nil: not started
	stopJoining func() // likewise

	bans *bans.Set
	feed *feed.Feed // nil: the kernel drops nothing
}

// newNode builds a node, each part from those above it. It opens the store and
// starts the cluster, but listens nowhere; close it after use.
func newNode(ctx context.Context, cfg *config.Config, log *slog.Logger, sink *logSink, sys *system) (_ *node, err error) {
	journal := new(audit.Journal)
	log = slog.New(journal.Handler(log.Handler()))
	if err := systemd.Unused(addresses(cfg)); err != nil {
		return nil, err
	}
	n := &node{cfg: cfg, log: log, sys: sys, manager: systemd.Notifier{Log: log}}
	n.reloads.note(time.Now(), nil)
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
	n.rules = newRules(n)
	n.state.load(n.rules)
	cfg = n.cfg // with live rules
	if n.limiter, err = n.state.newLimiter(n.limiterConfig(cfg)); err != nil {
		return nil, err
	}
	n.plan = n.limiter.Plan() // with what New has rounded and filled in
	// The same warnings as validate prints: not everybody runs it.
	for _, w := range config.Warnings(cfg, &n.plan) {
		log.Warn(w)
	}
	sc := cfg.Server
	sc.Limiter, sc.Logger, sc.LostLogs = n.limiter, log, sink.lost.Load
	sc.Changes = func(n int) any { return journal.Last(n) }
	sc.Version, sc.GoMemory = version().version, &n.memory
	sc.Alive = n.manager.Alive
	sc.Reload = func(ctx context.Context, by string) error { return n.reload(ctx, "admin "+by) }
	sc.Collectors = append(sc.Collectors, metrics.Reloads(n.reloads.stats))
	if err = decideBy(&sc, cfg); err != nil {
		return nil, err
	}
	// The store comes before the cluster, whose check of readiness is added to its.
	if n.store != nil {
		n.store.show(&sc)
	}
	n.overrides, n.bans = newOverrides(n, &sc), newBans(n, &sc)
	sc.Rules, sc.Collectors = n.rules, append(sc.Collectors, metrics.LiveRules(n.rules.Ends))
	n.lists.show(cfg, log, &sc)
	newKernel(n, &sc)
	if n.state != nil {
		n.state.show(&sc)
	}
	// Before the cluster starts: what peers send is to be received within the limits.
	n.memory = limitMemory(plannedMemory(cfg, &n.plan, &sc), sys.lookupEnv)
	if err = n.startCluster(&sc); err != nil {
		return nil, err
	}
	if n.server, err = server.New(sc); err != nil {
		return nil, err
	}
	n.made = sc
	n.kernel.Store(n.server)
	n.startOverrides()
	n.bans.Start(n.server)
	if n.state != nil {
		n.state.start(n.bans, n.overrides, n.fleet.recall)
	}
	n.startRules()
	n.lists.start(n.server.SetLists)
	n.stopJoining = n.joinLater() // when all is there that joining changes
	return n, nil
}

// decideBy has a server decide as a configuration says, whose limiter it has already.
func decideBy(sc *server.Config, cfg *config.Config) (err error) {
	sc.DenialLogs = cmp.Or(cfg.Server.DenialLogs, -1) // 0 is none in the file, but the default for the server
	if sc.Engine, err = policy.New(sc.Limiter, cfg.Policy); err != nil {
		return err
	}
	sc.Identity, err = policy.NewIdentity(cfg.Policy)
	return err
}

// limiterConfig is the file's, with the store and the secret that nodes share. The
// secret keys the digests of clients. Nodes with different ones could not compare counts,
// so it derives from the cluster's; alone, a node has a random one.
func (n *node) limiterConfig(cfg *config.Config) fastlimit.Config {
	lc := cfg.Limiter()
	if n.store != nil {
		lc.Store = n.store.Store
	}
	lc.OnBan = func(b fastlimit.Ban) { n.server.Banned(b) } // nobody is before there is one
	if c := cfg.Cluster; c != nil {
		lc.Secret = gossip.LimiterSecret(c.Name, c.Secret)
		lc.OnBan, lc.OnUnban = both(lc.OnBan, n.fleet.banned), both(lc.OnUnban, n.fleet.unbanned)
	}
	return lc
}

// close stops what newNode has started, the last first. Call it after the server has
// stopped: its last requests use both. What they refunded is still sent to the store.
func (n *node) close() {
	if n.stopJoining != nil {
		n.stopJoining()
	}
	if n.stopRules != nil {
		n.stopRules() // before the last time that they are saved
	}
	n.state.close()
	n.lists.close()
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
	running := n.fleet.Load()
	var rules []any
	for i := range n.plan.Rules {
		rp := &n.plan.Rules[i]
		text := fmt.Sprintf("%s %v; a client gets at most %s", config.Limit(&rp.Config), rp.Config.Mode, config.AtMost(rp))
		if running != nil {
			text += "; all nodes together " + n.cfg.Cluster.Bound(rp)
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
	if running != nil {
		attrs = append(attrs, clusterAttrs(n.cfg, running))
	}
	attrs = append(attrs, n.kernelAttrs()...)
	return append(attrs, memoryAttrs(n.memory)...)
}

// status is what a service manager shows of the node; err is why a reload has changed nothing.
func (n *node) status(err error) string {
	text := "serving on " + joinAddrs(n.server.Addrs())
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		text += "; the last reload changed nothing: " + first
	}
	return text
}

// addresses are all on which a node is to listen for connections of HTTP.
func addresses(cfg *config.Config) []string {
	all := []string{cfg.Server.Admin}
	for i := range cfg.Server.Listeners {
		all = append(all, cfg.Server.Listeners[i].Address)
	}
	return all
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
