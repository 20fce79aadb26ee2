package redisbench

import (
	"context"
	"fmt"

	"github.com/fastlimit/fastlimit/bench/storebench"
	"github.com/redis/go-redis/v9"
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

// viaScript is the usual way, which the others are compared with: go-redis with a connection for each
// caller and one EVALSHA for each check.
func viaScript(addr string) storebench.Way {
	return func(_ context.Context, l storebench.Load) (*storebench.Contender, error) {
		client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: storebench.Callers, MinIdleConns: storebench.Callers})
		script := redis.NewScript(gcra)
		return &storebench.Contender{
			Name: "EVALSHA per request", Setup: fmt.Sprintf("go-redis, %d connections, a GCRA script", storebench.Callers),
			Close: client.Close,
			Check: func(ctx context.Context, key int) (bool, error) {
				admitted, err := script.Run(ctx, client, []string{"plain:" + storebench.Key(key)}, l.Per.Microseconds(), l.Burst).Int()
				return admitted == 1, err
			},
		}, nil
	}
}
