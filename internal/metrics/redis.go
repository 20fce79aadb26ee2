// Package metrics exports the counters of the Redis store and the cluster to
// Prometheus. It is a package of its own so that those two need not import
// Prometheus, nor the server them.
package metrics

import (
	"maps"
	"slices"

	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/prometheus/client_golang/prometheus"
)

// Redis returns a collector of what a Redis store counts.
func Redis(stats func() redisstore.Stats) prometheus.Collector {
	return prom.Collector(stats, redisMetrics)
}

var redisMetrics = []prom.Metric[redisstore.Stats]{
	prom.Counters("redis_operations_total", "Operations sent to Redis: take, peek, refund, reset.", []string{"operation"},
		func(s *redisstore.Stats, add func(uint64, ...string)) {
			add(s.Takes, "take")
			add(s.Peeks, "peek")
			add(s.Refunds, "refund")
			add(s.Resets, "reset")
		}),
	prom.Counters("redis_errors_total", "Operations that failed in Redis, by class.", []string{"class"},
		func(s *redisstore.Stats, add func(uint64, ...string)) {
			for _, class := range slices.Sorted(maps.Keys(s.Errors)) {
				add(s.Errors[class], class)
			}
		}),
	prom.Counters("redis_refused_total", "Operations that were not sent: the queue was full, or Redis was away.", []string{"reason"},
		func(s *redisstore.Stats, add func(uint64, ...string)) {
			add(s.Busy, "busy")
			add(s.Away, "away")
		}),
	prom.Counter("redis_pipelines_total", "Batches sent to Redis.", func(s *redisstore.Stats) uint64 { return s.Pipelines }),
	prom.Counter("redis_commands_total", "Commands in all batches: one each, but in a cluster; those sent again included.",
		func(s *redisstore.Stats) uint64 { return s.Commands }),
	prom.Gauge("redis_up", "1 while the circuit breaker is closed.", func(s *redisstore.Stats) float64 { return oneIf(s.State == "closed") }),
	prom.Counter("redis_breaker_trips_total", "Times the circuit breaker opened.", func(s *redisstore.Stats) uint64 { return s.Trips }),
	prom.Gauge("redis_queue_operations", "Operations that wait for a batch.", func(s *redisstore.Stats) float64 { return float64(s.Queue) }),
	prom.Gauge("redis_clock_offset_seconds", "Redis's clock minus this machine's, at the last answer. For display only.",
		func(s *redisstore.Stats) float64 { return s.ClockOffset.Seconds() }),
	prom.Gauges("redis_connections", "Connections to Redis, by state.", []string{"state"},
		func(s *redisstore.Stats, set func(float64, ...string)) {
			set(float64(s.Pool.Idle), "idle")
			set(float64(s.Pool.Total-s.Pool.Idle), "busy")
		}),
	prom.Gauge("redis_distance_seconds", "Shortest round trip to Redis of the last 10 to 20 s in which there were any.",
		func(s *redisstore.Stats) float64 { return s.Distance.Seconds() }),
	prom.Gauge("redis_timeout_seconds", "redis.timeout: want 5 times the distance.", func(s *redisstore.Stats) float64 { return s.Timeout.Seconds() }),
	prom.Counter("redis_late_operations_total", "Operations that Redis answered after the timeout.", func(s *redisstore.Stats) uint64 { return s.Late }),
	prom.Histogram("redis_round_trip_seconds", "Duration of a batch.", roundTrips),
}

// roundTrips accumulates the counts: the buckets of a Prometheus histogram are
// cumulative.
func roundTrips(s *redisstore.Stats) (n uint64, seconds float64, atMost map[float64]uint64) {
	atMost = make(map[float64]uint64, len(remote.RoundTripBounds))
	for i, bound := range remote.RoundTripBounds {
		n += s.RoundTrips[i]
		atMost[bound.Seconds()] = n
	}
	return n + s.RoundTrips[len(remote.RoundTripBounds)], s.RoundTripSum.Seconds(), atMost
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
