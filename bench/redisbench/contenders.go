package redisbench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/redis/go-redis/v9"
)

// checkPatience is long enough for Redis to answer every check.
const checkPatience = time.Second

// viaLimiter takes through a rule that checks every request exactly.
func viaLimiter(ctx context.Context, l checkLoad, addr string) (*contender, error) {
	store, err := open(ctx, addr, checkPatience)
	if err != nil {
		return nil, err
	}
	c := &contender{
		name: "fastlimit", setup: "limiter, strict rule; micro-batches",
		close: func() error { return closeStore(store) },
	}
	_, rule, err := limiter(store, checkPatience, fastlimit.RuleConfig{
		Rate: fastlimit.Rate{N: 1, Per: l.per}, Burst: l.burst, Strict: true, OnFailure: fastlimit.FailClosed,
	})
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	keys := make([]fastlimit.Key, checkKeys)
	for i := range keys {
		keys[i] = rule.BytesKey([]byte(benchKey(i)))
	}
	c.check = func(ctx context.Context, key int) (bool, error) {
		d := rule.Take(ctx, keys[key], 1)
		if d.Stage != fastlimit.StageExact {
			return false, fmt.Errorf("decided without Redis, by %v", d.Stage)
		}
		return d.Allowed, nil
	}
	return c, nil
}

// viaStore is the store alone: every check asks Redis.
func viaStore(ctx context.Context, l checkLoad, addr string) (*contender, error) {
	shape, err := bucket.NewShape(1, l.per, l.burst)
	if err != nil {
		return nil, err
	}
	store, err := open(ctx, addr, checkPatience)
	if err != nil {
		return nil, err
	}
	return &contender{
		name: "fastlimit's store", setup: "redisstore; micro-batches",
		close: func() error { return closeStore(store) },
		check: func(_ context.Context, key int) (bool, error) {
			type outcome struct {
				reply bucket.Reply
				err   error
			}
			answer := make(chan outcome, 1)
			err := store.Submit(&bucket.Op{
				Kind: bucket.Take, Key: "bench:" + benchKey(key), Shape: shape, Cost: shape.Unit(), Count: 1,
				Done: func(_ *bucket.Op, r bucket.Reply, err error) { answer <- outcome{r, err} },
			})
			if err != nil {
				return false, err
			}
			o := <-answer
			return o.reply.Granted == 1, o.err
		},
	}, nil
}

// gcra is the usual script: one bucket, one request, the server's clock. It is
// what redis_rate does, without its conversions.
const gcra = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local gap, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
if tat + gap - now > gap * burst then return 0 end
redis.call('SET', KEYS[1], tat + gap, 'PX', math.ceil((tat + gap - now) / 1000) + 1)
return 1`

// viaScript is the usual way, which the others are compared with: go-redis with a connection for each
// caller and one EVALSHA for each check.
func viaScript(_ context.Context, l checkLoad, addr string) (*contender, error) {
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: checkCallers, MinIdleConns: checkCallers})
	script := redis.NewScript(gcra)
	return &contender{
		name: "EVALSHA per request", setup: fmt.Sprintf("go-redis, %d connections, a GCRA script", checkCallers),
		close: client.Close,
		check: func(ctx context.Context, key int) (bool, error) {
			admitted, err := script.Run(ctx, client, []string{"plain:" + benchKey(key)}, l.per.Microseconds(), l.burst).Int()
			return admitted == 1, err
		},
	}, nil
}
