package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/pgstore"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/metrics"
	"github.com/fastlimit/fastlimit/internal/overrides"
	"github.com/fastlimit/fastlimit/server"
)

// store is the store that nodes share, whichever driver it has. Everything beyond
// opening it, such as readiness and most metrics, is the same for all drivers.
type store struct {
	bucket.Store

	name     string                     // of its section in the file
	registry registry.Store             // where live overrides are kept
	stats    func() remote.Stats        // what every store counts
	export   func(*server.Config)       // adds its metrics, and those that only its driver has
	renew    func(*config.Config) error // has it log in as a configuration says
	shutDown func(context.Context) error
}

// openStore opens the store that the configuration asks for; nil if it asks for none.
// It fails on a wrong configuration, but not if the store is away: then on_failure of
// the rules decides until it is back.
func openStore(ctx context.Context, cfg *config.Config, log *slog.Logger) (*store, error) {
	if cfg.Redis != nil {
		return openRedis(ctx, cfg.Store().Name, *cfg.Redis, log)
	}
	if cfg.Postgres != nil {
		return openPostgres(ctx, cfg.Store().Name, *cfg.Postgres, log)
	}
	return nil, nil
}

func openRedis(ctx context.Context, name string, c redisstore.Config, log *slog.Logger) (*store, error) {
	c.Logger = log
	s, err := redisstore.Open(ctx, c)
	if s == nil { // with a store, err says that it is away, and is no reason not to start
		return nil, fmt.Errorf("redis: %w", err)
	}
	if err == nil { // otherwise it is away, which the store has logged
		log.Info("redis is used for exact checks")
	}
	stats := func() remote.Stats { return s.Stats().Stats }
	live := s.Registry(overrides.Registry)
	return &store{
		Store: s, name: name, stats: stats, registry: live,
		shutDown: func(ctx context.Context) error { return errors.Join(s.Close(ctx), live.Close()) },
		renew:    func(cfg *config.Config) error { return s.Renew(*cfg.Redis) },
		export: func(sc *server.Config) {
			sc.Collectors = append(sc.Collectors, metrics.Store(name, "Redis", stats), metrics.Redis(s.Stats))
		},
	}, nil
}

func openPostgres(ctx context.Context, name string, c pgstore.Config, log *slog.Logger) (*store, error) {
	c.Logger = log
	s, err := pgstore.Open(ctx, c)
	if s == nil { // as of Redis
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if err == nil {
		log.Info("postgres is used for exact checks")
	}
	live, err := s.Registry(overrides.Registry)
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	stats := func() remote.Stats { return s.Stats().Stats }
	return &store{
		Store: s, name: name, stats: stats, registry: live,
		shutDown: func(ctx context.Context) error { return errors.Join(s.Close(ctx), live.Close()) },
		renew:    func(cfg *config.Config) error { return s.Renew(*cfg.Postgres) },
		export: func(sc *server.Config) {
			sc.Collectors = append(sc.Collectors, metrics.Store(name, "PostgreSQL", stats), metrics.Postgres(s.Stats))
		},
	}, nil
}

// show adds the store to metrics and /v1/info, and lets it fail /readyz.
func (s *store) show(sc *server.Config) {
	s.export(sc)
	sc.Ready = s.readiness(sc.Limiter.Rules())
	sc.Store = func() server.StoreInfo {
		st := s.stats()
		return server.StoreInfo{Name: s.name, State: st.State, Distance: st.Distance, Timeout: st.Timeout, Late: st.Late, Operations: st.Takes + st.Peeks + st.Refunds + st.Resets}
	}
}

// readiness returns a check that fails while the store is away, if no rule can decide
// without it. nil: some rule can, so a load balancer should keep sending requests. With
// a check, nodes that cannot reach the store leave the load balancer, and those that
// can take their traffic.
func (s *store) readiness(rules []*fastlimit.Rule) func() error {
	for _, r := range rules {
		if r.Config().OnFailure != fastlimit.FailClosed {
			return nil
		}
	}
	return func() error {
		if state := s.stats().State; state != "closed" {
			return fmt.Errorf("%s is down (breaker %s) and every rule has on_failure: closed", s.name, state)
		}
		return nil
	}
}

// close closes the store, but first sends what is queued, such as refunds.
func (s *store) close(log *slog.Logger) {
	const closeTimeout = 2 * time.Second // a store that is away must not hold up a restart
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := s.shutDown(ctx); err != nil {
		log.Warn(s.name+": closing", slog.Any("error", err))
	}
}
