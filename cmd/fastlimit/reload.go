package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/metrics"
	"github.com/fastlimit/fastlimit/internal/systemd"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
)

// A reload makes everything that depends on the configuration anew, each part from the one
// before, and has the server take all of it at once. Until then nothing has changed, and an
// error leaves it at that. What goes on: the store, the cluster, live overrides, bans, and
// the state of rules ([fastlimit.Limiter.With]).

// unusable is why a configuration does not hold, a line for each reason.
type unusable struct{ error }

// HTTPStatus is that of the admin listener's answer.
func (unusable) HTTPStatus() int { return http.StatusUnprocessableEntity }

// reload reads the configuration again and has it hold. cause is for the log.
func (n *node) reload(_ context.Context, cause string) error {
	n.reloading.Lock()
	defer n.reloading.Unlock()
	before := n.plan
	n.manager.Reloading()
	err := n.read()
	n.reloads.note(time.Now(), err)
	n.manager.Ready(n.status(err))
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			n.log.Error("reload: nothing was changed", slog.String("cause", cause), slog.String("error", strings.TrimSuffix(line, "\n")))
		}
		return unusable{err}
	}
	n.log.Info("reloaded", append([]any{slog.String("cause", cause)}, changes(&before, &n.plan)...)...)
	return nil
}

// read reads the configuration and has it hold, with what is live of its rules.
func (n *node) read() error {
	if n.load == nil {
		return errors.New("there is no configuration file: all settings come from flags")
	}
	cfg, err := n.load()
	if err != nil {
		return err
	}
	if frozen := cfg.Frozen(n.cfg); len(frozen) > 0 {
		return cfg.NotLive(frozen)
	}
	if err := systemd.Unused(addresses(cfg)); err != nil {
		return err
	}
	files := n.lists.of(cfg, n.log)
	n.lists.close() // else it would give the next rules these lists
	err = n.rules.Follow(cfg.Policy.Rules, func(rules []policy.RuleSpec) error {
		sc := n.beside(cfg)
		return n.hold(cfg.WithRules(rules), &sc, n.server.Reload)
	})
	if err == nil {
		n.lists.set.Store(files)
		n.renew(cfg)
	}
	n.lists.start(n.server.SetLists)
	if live := new(server.NotLive); errors.As(err, &live) {
		var fields []string
		for _, f := range live.Fields {
			fields = append(fields, "Server."+f)
		}
		return cfg.NotLive(fields)
	}
	return err
}

// changeRules has other rules hold, and nothing else change. It is called with reloading held.
func (n *node) changeRules(rules []policy.RuleSpec) error {
	cfg := n.cfg.WithRules(rules)
	if n.limiter == nil { // it is to be made
		_, err := fastlimit.NewPlan(n.limiterConfig(cfg))
		if err == nil {
			n.cfg = cfg
		}
		return err
	}
	sc := n.made
	return n.hold(cfg, &sc, func(c server.Config) error {
		n.server.SetRules(c.Limiter, c.Engine, c.Tiers, c.Ready)
		return nil
	})
}

// hold has a configuration hold, by which sc is completed: a limiter that goes on with the state of
// the one before, an engine with the bans and overrides that operators have set. use gives them
// to the server; with an error of it nothing has changed.
func (n *node) hold(cfg *config.Config, sc *server.Config, use func(server.Config) error) (err error) {
	if sc.Limiter, err = n.limiter.With(n.limiterConfig(cfg)); err != nil {
		return err
	}
	if sc.Ready = nil; n.store != nil {
		sc.Ready = n.store.readiness(sc.Limiter.Rules())
	}
	n.among(sc)
	if err = decideBy(sc, cfg); err != nil {
		return err
	}
	err = n.overrides.Follow(liveConfig(cfg, sc), func(e *policy.Engine, tiers []*fastlimit.Rule) error {
		return n.bans.Follow(sc.Limiter, sc.Engine, func(b *policy.Bans) error {
			live := *sc
			live.Engine, live.Tiers = e.WithBans(b), tiers
			return use(live)
		})
	})
	if err == nil {
		n.follow(cfg, sc)
	}
	return err
}

// beside is what a server takes that is not in its rules: of the file, and of the program around it.
func (n *node) beside(cfg *config.Config) server.Config {
	sc, was := cfg.Server, &n.made
	sc.Logger, sc.LostLogs, sc.Version = was.Logger, was.LostLogs, was.Version
	sc.Collectors, sc.Overrides, sc.Bans, sc.Rules, sc.Reload = was.Collectors, was.Overrides, was.Bans, was.Rules, was.Reload
	sc.Store, sc.Cluster, sc.ListFiles = was.Store, was.Cluster, was.ListFiles
	sc.Kernel, sc.GoMemory, sc.Alive = was.Kernel, was.GoMemory, was.Alive
	return sc
}

// follow has all that refers to the limiter refer to the one that decides now.
func (n *node) follow(cfg *config.Config, sc *server.Config) {
	n.cfg, n.made, n.limiter = cfg, *sc, sc.Limiter
	n.plan = sc.Limiter.Plan()
	if n.cluster != nil {
		n.cluster.Follow(sc.Limiter)
	}
	n.state.follow(sc.Limiter)
	limitMemory(plannedMemory(cfg, &n.plan, sc), n.sys.lookupEnv)
}

// renew takes what a configuration that holds now has beside what the server was given, and says
// what is odd about it.
func (n *node) renew(cfg *config.Config) {
	for _, w := range config.Warnings(cfg, &n.plan) {
		n.log.Warn(w)
	}
	if n.store != nil {
		if err := n.store.renew(cfg); err != nil { // its files were good when the configuration was read
			n.log.Error("reload: the store keeps its current login", slog.Any("error", err))
		}
	}
	n.server.RereadCertificates()
}

// changes are what a reload has changed in rules.
func changes(before, now *fastlimit.Plan) (attrs []any) {
	was := map[string]*limit.RulePlan{}
	for i := range before.Rules {
		was[before.Rules[i].Config.Name] = &before.Rules[i]
	}
	var added, removed, changed []string
	for i := range now.Rules {
		r := &now.Rules[i]
		old, ok := was[r.Config.Name]
		delete(was, r.Config.Name)
		text := func(r *limit.RulePlan) string {
			return fmt.Sprintf("%s %v", config.Limit(&r.Config), r.Config.Mode)
		}
		switch {
		case !ok:
			added = append(added, r.Config.Name+": "+text(r))
		case !old.Config.SameClients(&r.Config):
			changed = append(changed, r.Config.Name+": "+text(old)+" -> "+text(r)+", empty, as its key or match has changed")
		case text(old) != text(r):
			changed = append(changed, r.Config.Name+": "+text(old)+" -> "+text(r))
		}
	}
	for i := range before.Rules {
		if name := before.Rules[i].Config.Name; was[name] != nil {
			removed = append(removed, name)
		}
	}
	for _, c := range []struct {
		name string
		what []string
	}{{"added", added}, {"removed", removed}, {"changed", changed}} {
		if len(c.what) > 0 {
			attrs = append(attrs, slog.String(c.name, strings.Join(c.what, ", ")))
		}
	}
	return attrs
}

// reloads counts them. The start is one that succeeded. It is safe for concurrent use.
type reloads struct {
	mu sync.Mutex
	s  metrics.ReloadStats // guarded by mu
}

func (r *reloads) note(at time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	started := !r.s.Last.IsZero()
	r.s.Failed = err != nil
	switch {
	case err != nil:
		r.s.Failures++
	case started:
		r.s.Successes++
	}
	if err == nil {
		r.s.Last = at
	}
}

func (r *reloads) stats() metrics.ReloadStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.s
}
