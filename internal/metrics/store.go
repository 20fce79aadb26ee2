// Package metrics exports the counters of shared stores and of the cluster to Prometheus. It is separate so
// that those need not import Prometheus, nor the server them.
//
// Names and labels are an interface: dashboards and alerts refer to them. A label's
// values must come from a closed set, or from the configuration, since Prometheus
// keeps a series for each one forever.
package metrics

import (
	"maps"
	"slices"

	"github.com/fastlimit/fastlimit/bucket/pgstore"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/prometheus/client_golang/prometheus"
)

// Store returns a collector of what every shared store counts. section is the store's in the file; it is the
// prefix of the metrics, so that dashboards can distinguish stores. Help texts use the store's name, such as
// Redis.
func Store(section, store string, stats func() remote.Stats) prometheus.Collector {
	counter := func(name, help string, read func(s *remote.Stats) uint64) prom.Metric[remote.Stats] {
		return prom.Counter(section+"_"+name, help, read)
	}
	gauge := func(name, help string, read func(s *remote.Stats) float64) prom.Metric[remote.Stats] {
		return prom.Gauge(section+"_"+name, help, read)
	}
	return prom.Collector(stats, []prom.Metric[remote.Stats]{
		prom.Counters(section+"_operations_total", "Operations sent to "+store+": take, peek, refund, reset.", []string{"operation"},
			func(s *remote.Stats, add func(uint64, ...string)) {
				add(s.Takes, "take")
				add(s.Peeks, "peek")
				add(s.Refunds, "refund")
				add(s.Resets, "reset")
			}),
		// Classes without an error are exported too: an alert on the rate of a class
		// needs its series to start at 0.
		prom.Counters(section+"_errors_total", "Operations that failed in "+store+", by class.", []string{"class"},
			func(s *remote.Stats, add func(uint64, ...string)) {
				for _, class := range slices.Sorted(maps.Keys(s.Errors)) {
					add(s.Errors[class], class)
				}
			}),
		prom.Counters(section+"_refused_total", "Operations that were not sent: the queue was full, or "+store+" was away.", []string{"reason"},
			func(s *remote.Stats, add func(uint64, ...string)) {
				add(s.Busy, "busy")
				add(s.Away, "away")
			}),
		counter("pipelines_total", "Batches sent to "+store+".", func(s *remote.Stats) uint64 { return s.Pipelines }),
		gauge("up", "1 while the circuit breaker is closed.", func(s *remote.Stats) float64 { return oneIf(s.State == "closed") }),
		counter("breaker_trips_total", "Times the circuit breaker opened.", func(s *remote.Stats) uint64 { return s.Trips }),
		gauge("queue_operations", "Operations that wait for a batch.", func(s *remote.Stats) float64 { return float64(s.Queue) }),
		gauge("distance_seconds", "Shortest round trip to "+store+" of the last 10 to 20 s in which there were any.",
			func(s *remote.Stats) float64 { return s.Distance.Seconds() }),
		gauge("timeout_seconds", section+".timeout: want 5 times the distance.", func(s *remote.Stats) float64 { return s.Timeout.Seconds() }),
		counter("late_operations_total", "Operations that "+store+" answered after the timeout.", func(s *remote.Stats) uint64 { return s.Late }),
		prom.Histogram(section+"_round_trip_seconds", "Duration of a batch.", roundTrips),
	})
}

// roundTrips accumulates the counts: the buckets of a Prometheus histogram are
// cumulative.
func roundTrips(s *remote.Stats) (n uint64, seconds float64, atMost map[float64]uint64) {
	atMost = make(map[float64]uint64, len(remote.RoundTripBounds))
	for i, bound := range remote.RoundTripBounds {
		n += s.RoundTrips[i]
		atMost[bound.Seconds()] = n
	}
	return n + s.RoundTrips[len(remote.RoundTripBounds)], s.RoundTripSum.Seconds(), atMost
}

// Another driver with counters of its own adds a function like Redis.

// Redis returns a collector of what only the Redis driver counts, in addition to [Store]. Metrics belong here
// only if no other store could have them, since a dashboard for any store uses those above.
func Redis(stats func() redisstore.Stats) prometheus.Collector {
	return prom.Collector(stats, []prom.Metric[redisstore.Stats]{
		prom.Counter("redis_commands_total", "Commands in all batches, including those sent again: one per batch, except in Redis Cluster.",
			func(s *redisstore.Stats) uint64 { return s.Commands }),
		prom.Gauge("redis_clock_offset_seconds", "Redis's clock minus this machine's, at the last answer. For display only.",
			func(s *redisstore.Stats) float64 { return s.ClockOffset.Seconds() }),
		prom.Gauges("redis_connections", "Connections to Redis, by state.", []string{"state"},
			func(s *redisstore.Stats, set func(float64, ...string)) {
				set(float64(s.Pool.Idle), "idle")
				set(float64(s.Pool.Total-s.Pool.Idle), "busy")
			}),
	})
}

// Postgres does the same for the PostgreSQL driver.
func Postgres(stats func() pgstore.Stats) prometheus.Collector {
	return prom.Collector(stats, []prom.Metric[pgstore.Stats]{
		prom.Counter("postgres_statements_total", "Statements sent: one per batch, including probes.",
			func(s *pgstore.Stats) uint64 { return s.Statements }),
		prom.Counter("postgres_pruned_rows_total", "Expired rows that this node has deleted.",
			func(s *pgstore.Stats) uint64 { return s.Pruned }),
		prom.Gauge("postgres_clock_offset_seconds", "PostgreSQL's clock minus this machine's, at the last answer. For display only.",
			func(s *pgstore.Stats) float64 { return s.ClockOffset.Seconds() }),
		prom.Gauges("postgres_connections", "Connections to PostgreSQL, by state.", []string{"state"},
			func(s *pgstore.Stats, set func(float64, ...string)) {
				set(float64(s.Pool.Idle), "idle")
				set(float64(s.Pool.Total-s.Pool.Idle), "busy")
			}),
	})
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
