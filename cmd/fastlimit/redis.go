package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/metrics"
	"github.com/fastlimit/fastlimit/server"
)

// openStore connects to Redis. It fails on a wrong configuration, but not if Redis is
// away: then on_failure of the rules decides until it is back.
func openStore(ctx context.Context, c redisstore.Config, log *slog.Logger) (*redisstore.Store, error) {
	c.Logger = log
	s, err := redisstore.Open(ctx, c)
	if s == nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	if err == nil { // else it is away, and the store has said so
		log.Info("redis is used for exact checks")
	}
	return s, nil
}

// addStore shows the store in metrics and /v1/info, and lets it fail /readyz.
func addStore(sc *server.Config, s *redisstore.Store) {
	sc.Collectors = append(sc.Collectors, metrics.Redis(s.Stats))
	sc.Ready = redisReady(sc.Limiter.Rules(), s.Stats)
	sc.Store = func() server.StoreInfo {
		st := s.Stats()
		return server.StoreInfo{State: st.State, Distance: st.Distance, Timeout: st.Timeout, Late: st.Late}
	}
}

// redisReady fails while Redis is away if no rule can decide without it.
func redisReady(rules []*fastlimit.Rule, stats func() redisstore.Stats) func() error {
	for _, r := range rules {
		if r.Config().OnFailure != fastlimit.FailClosed {
			return nil
		}
	}
	return func() error {
		if state := stats().State; state != "closed" {
			return fmt.Errorf("redis is down (breaker %s) and every rule has on_failure: closed", state)
		}
		return nil
	}
}

// closeStore still sends what is queued, refunds for one, and closes the store.
func closeStore(s *redisstore.Store, log *slog.Logger) {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		log.Warn("redis: closing", slog.Any("error", err))
	}
}
