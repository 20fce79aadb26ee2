package main

import (
	"context"

	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/liverules"
	"github.com/fastlimit/fastlimit/internal/metrics"
	"github.com/fastlimit/fastlimit/internal/overrides"
	"github.com/fastlimit/fastlimit/server"
)

// liveMemory is how much memory live overrides may take, beside that of the limiter.
func liveMemory(memory int64) int64 { return memory / 8 }

// newOverrides makes the live overrides of a node and lets the server show them.
func newOverrides(n *node, sc *server.Config) *overrides.Set {
	c := liveConfig(n.cfg, sc)
	c.Kept, c.Log = "this node", n.log
	if n.store != nil {
		c.Store, c.Kept = n.store.registry, n.store.name
	}
	c.Talkers = func(rule string) []string { return n.server.TalkerNames(rule) }
	s := overrides.New(c)
	sc.Overrides = s
	sc.Collectors = append(sc.Collectors, metrics.Overrides(s.Stats))
	return s
}

// liveConfig is what depends on the configuration.
func liveConfig(cfg *config.Config, sc *server.Config) overrides.Config {
	return overrides.Config{Policy: &cfg.Policy, Limiter: sc.Limiter, Engine: sc.Engine, Memory: liveMemory(cfg.Limits.Memory)}
}

// newRules makes what operators change of rules for a while.
func newRules(n *node) *liverules.Set {
	return liverules.New(liverules.Config{Changing: &n.reloading, Apply: n.changeRules, Log: n.log, Accept: n.cfg.Cluster != nil && n.cfg.Cluster.AcceptRules}, n.cfg.Policy.Rules)
}

// startRules has rules go back at their time until the node is closed.
func (n *node) startRules() {
	ctx, cancel := context.WithCancel(context.Background())
	stopped := n.rules.Start(ctx)
	n.stopRules = func() { cancel(); <-stopped }
}

// startOverrides applies what the store has, and follows it until the node is closed.
func (n *node) startOverrides() {
	ctx, cancel := context.WithCancel(context.Background())
	stopped := n.overrides.Start(ctx, n.server.SetEngine)
	n.stopOverrides = func() { cancel(); <-stopped }
}
