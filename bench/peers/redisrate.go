package peers

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// RedisRate is github.com/go-redis/redis_rate/v10: GCRA as a script in Redis,
// one round trip for each decision. The URL names a server whose current
// database is at its disposal: it is flushed first.
func RedisRate(url string) inproc.Contender {
	return inproc.Contender{
		Name:     "redis_rate",
		Setup:    "go-redis/redis_rate v10, one EVALSHA per decision, client with defaults, server on this machine; strings of address bytes; the server reads the clock",
		OwnClock: true, Remote: true,
		New: func(r oracle.Rule) (inproc.Limiter, error) {
			options, err := redis.ParseURL(url)
			if err != nil {
				return nil, err
			}
			client := redis.NewClient(options)
			if err := client.FlushDB(context.Background()).Err(); err != nil {
				return nil, errors.Join(err, client.Close())
			}
			return &redisRate{client: client, limiter: redis_rate.NewLimiter(client), limit: redis_rate.Limit{
				Rate: int(r.Rate.N), Burst: int(r.Burst), Period: r.Rate.Per,
			}}, nil
		},
	}
}

type redisRate struct {
	client  *redis.Client
	limiter *redis_rate.Limiter
	limit   redis_rate.Limit
	err     atomic.Pointer[error] // the first one
	asked   atomic.Uint64
}

func (l *redisRate) Allow(addr netip.Addr, _ time.Duration) bool {
	l.asked.Add(1)
	result, err := l.limiter.Allow(context.Background(), name(addr), l.limit)
	if err != nil {
		l.err.CompareAndSwap(nil, &err)
		return false
	}
	return result.Allowed > 0
}

// Asked implements [inproc.Asker].
func (l *redisRate) Asked() uint64 { return l.asked.Load() }

// Err implements [inproc.Failer].
func (l *redisRate) Err() error {
	if err := l.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (l *redisRate) Close() error { return l.client.Close() }
