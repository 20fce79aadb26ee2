package redisbench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/storebench"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/limit"
)

// Contender is fastlimit with its exact buckets in the Redis at a URL, which it
// leaves keys in that expire: how right it is, and how often it asks.
func Contender(url string) inproc.Contender {
	return inproc.Contender{
		Name:     "fastlimit, Redis",
		Setup:    "defaults; exact buckets in a Redis on this machine",
		OwnClock: true, Remote: true,
		New: func(r oracle.Rule) (inproc.Limiter, error) {
			return openRedis(url, limit.DefaultStoreTimeout, fastlimit.RuleConfig{Rate: r.Rate, Burst: r.Burst})
		},
	}
}

// Algorithms is fastlimit with strict rules of each algorithm, whose state is in the Redis
// at a URL: what has to be asked there is, and waits for the answer however long that takes.
func Algorithms(url string) (all []inproc.Contender) {
	for a := range bucket.NumAlgorithms {
		all = append(all, inproc.Contender{
			Name:     "fastlimit, " + a.String() + ", Redis",
			Setup:    fmt.Sprintf("algorithm %v, strict, on a Redis on this machine; whom it knows to be over its limit it denies itself", a),
			OwnClock: true, Remote: true,
			New: func(r oracle.Rule) (inproc.Limiter, error) {
				rule := inproc.AlgorithmRule(a, r)
				rule.Strict, rule.OnFailure = true, fastlimit.FailClosed
				l, err := openRedis(url, time.Second, rule)
				if err != nil {
					return nil, err
				}
				if t := inproc.TurnsFor(rule, r); t != nil {
					return redisTurns{l, t}, nil
				}
				return l, nil
			},
		})
	}
	return all
}

// openRedis is a limiter with a store of its own, and keys of its own in it.
func openRedis(url string, wait time.Duration, rule fastlimit.RuleConfig) (*viaRedis, error) {
	store, err := connect(context.Background(), redisstore.Config{
		URL: url, Logger: slog.New(slog.DiscardHandler), Timeout: wait,
		KeyPrefix: fmt.Sprintf("bench:%x:", rand.Uint64()), // nobody's buckets are left over
	})
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err) // without the URL: it may hold a password
	}
	_, r, err := storebench.Limiter(store, wait, rule)
	if err != nil {
		return nil, errors.Join(err, storebench.CloseStore(store))
	}
	return &viaRedis{store: store, rule: r}, nil
}

type viaRedis struct {
	store *redisstore.Store
	rule  *fastlimit.Rule
}

func (l *viaRedis) Allow(addr netip.Addr, _ time.Duration) bool {
	return l.rule.Take(context.Background(), l.rule.AddrKey(addr), 1).Allowed
}

// Asked implements [inproc.Asker].
func (l *viaRedis) Asked() uint64 { return l.store.Stats().Takes }

// redisTurns is a limiter whose client has successors; see [inproc.Turns].
type redisTurns struct {
	*viaRedis
	turns *inproc.Turns
}

func (l redisTurns) Allow(addr netip.Addr, now time.Duration) bool {
	return l.viaRedis.Allow(l.turns.Of(addr), now)
}

func (l *viaRedis) Close() error { return storebench.CloseStore(l.store) }
