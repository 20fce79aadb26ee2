package redisbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bench"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/redis/go-redis/v9"
)

const (
	checkCallers = 64
	checkKeys    = 1000
)

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

// checks compares exact checks by many callers who wait: through the store,
// which batches, and one EVALSHA for each on go-redis with its defaults.
func (o Options) checks(ctx context.Context, addr string) (_ []bench.Result, err error) {
	const patience = time.Second // every check is to be made
	store, err := open(ctx, addr, patience)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { err = errors.Join(err, closeStore(store), client.Close()) }()
	batched, err := viaStore(store)
	if err != nil {
		return nil, err
	}
	plain := viaScript(client)
	var perSecond [2][]float64
	for range o.Rounds {
		for i, check := range []func(context.Context, int) error{batched, plain} {
			took, err := o.round(ctx, check)
			if err != nil {
				return nil, err
			}
			perSecond[i] = append(perSecond[i], float64(o.Checks)/took.Seconds())
		}
	}
	setup := fmt.Sprintf("%d callers, %d hot keys, 100/s, burst 200", checkCallers, checkKeys)
	one := func(limiter, how string, v []float64) bench.Result {
		slices.Sort(v)
		return bench.Result{
			Group: "redis", Workload: "exact checks", Limiter: limiter, Setup: how + "; " + setup,
			Keys: checkKeys, Requests: int64(o.Checks * o.Rounds), PerSecond: &v[len(v)/2],
		}
	}
	return []bench.Result{
		one("fastlimit", "redisstore, micro-batches", perSecond[0]),
		one("EVALSHA per request", "go-redis with its defaults, a GCRA script", perSecond[1]),
	}, nil
}

// round makes o.Checks checks and returns how long they took.
func (o Options) round(ctx context.Context, check func(context.Context, int) error) (time.Duration, error) {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	start := time.Now()
	for range checkCallers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(o.Checks) && failed.Load() == nil; i = next.Add(1) {
				if err := check(ctx, int(i*7919)%checkKeys); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, fmt.Errorf("bench: a check in Redis: %w", *err)
	}
	return time.Since(start), nil
}

func viaStore(s *redisstore.Store) (func(context.Context, int) error, error) {
	shape, err := bucket.NewShape(100, time.Second, 200)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, key int) error {
		answer := make(chan error, 1)
		err := s.Submit(&bucket.Op{
			Kind: bucket.Take, Key: "bench:" + strconv.Itoa(key), Shape: shape, Cost: shape.Unit(), Count: 1,
			Done: func(_ *bucket.Op, _ bucket.Reply, err error) { answer <- err },
		})
		if err != nil {
			return err
		}
		return <-answer
	}, nil
}

func viaScript(c *redis.Client) func(context.Context, int) error {
	script := redis.NewScript(gcra)
	return func(ctx context.Context, key int) error {
		return script.Run(ctx, c, []string{"plain:" + strconv.Itoa(key)}, 10_000, 200).Err()
	}
}
