package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestRedis(t *testing.T) {
	t.Parallel()
	var s redisstore.Stats
	s.Takes, s.Refunds, s.Busy, s.State, s.Trips = 7, 2, 1, "open", 4
	s.Errors, s.RoundTripSum = map[string]uint64{"timeout": 3, "refused": 0}, 30*time.Millisecond
	s.RoundTrips[0], s.RoundTrips[len(s.RoundTrips)-1] = 5, 1
	c := Redis(func() redisstore.Stats { return s })
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
