package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestStoreMetrics(t *testing.T) {
	t.Parallel()
	var s remote.Stats
	s.Takes, s.Refunds, s.Busy, s.State, s.Trips = 7, 2, 1, "open", 4
	s.Errors, s.RoundTripSum = map[string]uint64{"timeout": 3, "refused": 0}, 30*time.Millisecond
	s.RoundTrips[0], s.RoundTrips[len(s.RoundTrips)-1] = 5, 1
	c := Store("redis", "Redis", func() remote.Stats { return s })
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	want := `
# HELP fastlimit_redis_errors_total Operations that failed in Redis, by class.
# TYPE fastlimit_redis_errors_total counter
fastlimit_redis_errors_total{class="refused"} 0
fastlimit_redis_errors_total{class="timeout"} 3
# HELP fastlimit_redis_operations_total Operations sent to Redis: take, peek, refund, reset.
# TYPE fastlimit_redis_operations_total counter
fastlimit_redis_operations_total{operation="peek"} 0
fastlimit_redis_operations_total{operation="refund"} 2
fastlimit_redis_operations_total{operation="reset"} 0
fastlimit_redis_operations_total{operation="take"} 7
# HELP fastlimit_redis_up 1 while the circuit breaker is closed.
# TYPE fastlimit_redis_up gauge
fastlimit_redis_up 0
`
	names := []string{"fastlimit_redis_errors_total", "fastlimit_redis_operations_total", "fastlimit_redis_up"}
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// A store of another driver has its own prefix and name: nothing calls it Redis.
func TestStoreMetricsOfAnotherStore(t *testing.T) {
	t.Parallel()
	descs := make(chan *prometheus.Desc, 100)
	Store("postgres", "PostgreSQL", func() remote.Stats { return remote.Stats{} }).Describe(descs)
	close(descs)
	for d := range descs {
		if text := d.String(); !strings.Contains(text, `"fastlimit_postgres_`) || strings.Contains(strings.ToLower(text), "redis") {
			t.Error(text)
		}
	}
}

// What only Redis has is beside what all stores have, and under no name of theirs.
func TestRedisMetrics(t *testing.T) {
	t.Parallel()
	s := redisstore.Stats{Commands: 9, ClockOffset: time.Millisecond, Pool: redisstore.Pool{Total: 3, Idle: 1}}
	c := Redis(func() redisstore.Stats { return s })
	both := prometheus.NewPedanticRegistry()
	both.MustRegister(c, Store("redis", "Redis", func() remote.Stats { return s.Stats }))
	if problems, err := testutil.GatherAndLint(both); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	want := `
# HELP fastlimit_redis_clock_offset_seconds Redis's clock minus this machine's, at the last answer. For display only.
# TYPE fastlimit_redis_clock_offset_seconds gauge
fastlimit_redis_clock_offset_seconds 0.001
# HELP fastlimit_redis_commands_total Commands in all batches, including those sent again: one per batch, except in Redis Cluster.
# TYPE fastlimit_redis_commands_total counter
fastlimit_redis_commands_total 9
# HELP fastlimit_redis_connections Connections to Redis, by state.
# TYPE fastlimit_redis_connections gauge
fastlimit_redis_connections{state="busy"} 2
fastlimit_redis_connections{state="idle"} 1
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
