package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

type serveCmd struct {
	limitFlags

	Listen     string         `placeholder:"ADDR" help:"Address for traffic, host:port. Port 0 picks a free port."`
	Admin      string         `placeholder:"ADDR" help:"Address for health, metrics and profiles. Keep it away from clients."`
	Upstream   string         `hidden:"" placeholder:"URL"` // refused by name until it is built
	Redis      string         `placeholder:"URL" help:"Redis that the nodes share for exact checks, for example redis://127.0.0.1:6379/0. Without it each node keeps its own."`
	LogFormat  string         `enum:"text,json" default:"text" help:"Format of the log on stderr: text or json."`
	DrainDelay *time.Duration `placeholder:"5s" help:"Time between /readyz turning 503 and the listeners closing, for a load balancer to notice. Default: drain.delay of the file, 1s."`
}

// Run implements the command.
func (c *serveCmd) Run(ctx context.Context, sys *system) error {
	cfg, err := c.load(config.Flags{Listen: c.Listen, Admin: c.Admin, Upstream: c.Upstream, Redis: c.Redis}, sys)
	if err != nil {
		return err
	}
	if c.DrainDelay != nil {
		if *c.DrainDelay < 0 {
			return usageError{fmt.Errorf("--drain-delay %v: want 0 or more", *c.DrainDelay)}
		}
		cfg.Drain.Delay = *c.DrainDelay
	}
	sink := newLogSink(sys.stderr)
	log := c.logger(sink)
	lc := cfg.Limiter()
	var store *redisstore.Store
	if cfg.Redis != nil {
		if store, err = openStore(ctx, cfg.Redis, log); err != nil {
			return err
		}
		defer closeStore(store, log)
		lc.Store = store
	}
	if cfg.Cluster != nil {
		lc.Secret = gossip.LimiterSecret(cfg.Cluster.Name, cfg.Cluster.Secret)
	}
	lim, err := fastlimit.New(lc)
	if err != nil {
		return err
	}
	plan := lim.Plan()
	for _, w := range config.Warnings(cfg, &plan) {
		log.Warn(w)
	}
	sc, err := c.serverConfig(cfg, lim, log)
	if err != nil {
		return err
	}
	sc.LostLogs = sink.lost.Load
	if store != nil {
		addStore(&sc, store)
	}
	memory := limitMemory(plannedMemory(cfg, &plan, &sc), sys.lookupEnv)
	sc.GoMemory = &memory
	cluster, err := addTalkers(&sc, cfg)
	if err != nil {
		return err
	}
	if cluster != nil {
		defer cluster.Close()
	}
	srv, err := server.New(sc)
	if err != nil {
		return err
	}
	// Signals are wired before anybody can know from the log that it runs.
	return signalled(ctx, signalHooks{
		onStop: func(s os.Signal) {
			log.Info("stopping; a second signal stops at once", slog.String("signal", s.String()))
		},
		onHangup: func() { log.Warn("reload is not supported by this version: the rules stay as they are") },
	}, func(ctx context.Context) error {
		if err := srv.Listen(); err != nil {
			return err
		}
		log.Info("fastlimit is serving", append(startAttrs(cfg, srv, cluster, &plan), memoryAttrs(memory)...)...)
		return srv.Serve(ctx)
	})
}

func (c *serveCmd) logger(w io.Writer) *slog.Logger {
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

// serverConfig is what every server has.
func (c *serveCmd) serverConfig(cfg *config.Config, lim *fastlimit.Limiter, log *slog.Logger) (sc server.Config, err error) {
	engine, err := policy.New(lim, cfg.Policy)
	if err != nil {
		return sc, err
	}
	identity, err := policy.NewIdentity(cfg.Policy)
	if err != nil {
		return sc, err
	}
	sc = server.Config{
		Admin: cfg.Admin, DecideAPI: cfg.DecideAPI,
		Limiter: lim, Engine: engine, Identity: identity,
		Logger: log, Version: version().short(),
		Connections: cfg.Connections, Drain: cfg.Drain,
		Listeners: cfg.Listeners,
	}
	return sc, nil
}

// startAttrs are what an operator wants to read back from the log: where it
// listens, and what each rule lets a client have (P2).
func startAttrs(cfg *config.Config, srv *server.Server, cluster *gossip.Cluster, plan *fastlimit.Plan) []any {
	var rules []any
	for i := range plan.Rules {
		rp := &plan.Rules[i]
		text := fmt.Sprintf("%v burst %d %v; a client gets at most %d at once, then %v",
			rp.Config.Rate, rp.Config.Burst, rp.Config.Mode, rp.MaxBurst(), rp.Config.Rate)
		if cluster != nil {
			text += "; of all nodes together " + cfg.Cluster.Bound(rp)
		}
		rules = append(rules, slog.String(rp.Config.Name, text))
	}
	attrs := []any{
		slog.String("listen", joinAddrs(srv.Addrs())), slog.String("admin", joinAddrs([]net.Addr{srv.AdminAddr()})),
		slog.String("version", version().short()), slog.Int64("memory", plan.Memory), slog.Group("rules", rules...),
	}
	if cluster != nil {
		attrs = append(attrs, clusterAttrs(cfg, cluster))
	}
	return attrs
}

func joinAddrs(addrs []net.Addr) string {
	var all []string
	for _, a := range addrs {
		if a != nil {
			all = append(all, a.String())
		}
	}
	return strings.Join(all, ",")
}
