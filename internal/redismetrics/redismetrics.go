// Package redismetrics shows what a [redisstore.Store] counts to Prometheus.
// It stands apart so that neither the store knows of Prometheus nor the server
// of Redis.
package redismetrics

import (
	"maps"
	"slices"

	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/prometheus/client_golang/prometheus"
)

// Collector reads the counters of a store when it is scraped. It is safe for
// concurrent use. The zero value is not usable: call [New].
type Collector struct {
	stats func() redisstore.Stats
}

// New returns a collector of what stats returns.
func New(stats func() redisstore.Stats) *Collector { return &Collector{stats} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("fastlimit_redis_"+name, help, labels, nil)
}

var (
	descOperations = desc("operations_total", "Operations sent to Redis: take, peek, refund, reset.", "operation")
	descErrors     = desc("errors_total", "Operations that failed in Redis, by class.", "class")
	descRefused    = desc("refused_total", "Operations that were not sent: the queue was full, or Redis was away.", "reason")
	descPipelines  = desc("pipelines_total", "Batches sent to Redis.")
	descCommands   = desc("commands_total", "Commands in all batches: one each, but in a cluster; those sent again included.")
	descUp         = desc("up", "1 while the circuit breaker is closed.")
	descTrips      = desc("breaker_trips_total", "Times the circuit breaker opened.")
	descQueue      = desc("queue_operations", "Operations that wait for a batch.")
	descOffset     = desc("clock_offset_seconds", "Redis's clock minus this machine's, at the last answer. For display only.")
	descPool       = desc("connections", "Connections to Redis, by state.", "state")
	descDistance   = desc("distance_seconds", "Shortest round trip to Redis of the last 10 to 20 s in which there were any.")
	descTimeout    = desc("timeout_seconds", "redis.timeout: want 5 times the distance.")
	descLate       = desc("late_operations_total", "Operations that Redis answered after the timeout.")
	descRoundTrip  = desc("round_trip_seconds", "Duration of a batch.")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descOperations, descErrors, descRefused, descPipelines, descCommands, descUp, descTrips, descQueue, descOffset, descPool, descRoundTrip,
		descDistance, descTimeout, descLate,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count(descOperations, s.Takes, "take")
	count(descOperations, s.Peeks, "peek")
	count(descOperations, s.Refunds, "refund")
	count(descOperations, s.Resets, "reset")
	for _, class := range slices.Sorted(maps.Keys(s.Errors)) {
		count(descErrors, s.Errors[class], class)
	}
	count(descRefused, s.Busy, "busy")
	count(descRefused, s.Away, "away")
	count(descPipelines, s.Pipelines)
	count(descCommands, s.Commands)
	up := 0.0
	if s.State == "closed" {
		up = 1
	}
	gauge(descUp, up)
	count(descTrips, s.Trips)
	gauge(descQueue, float64(s.Queue))
	gauge(descOffset, s.ClockOffset.Seconds())
	gauge(descDistance, s.Distance.Seconds())
	gauge(descTimeout, s.Timeout.Seconds())
	count(descLate, s.Late)
	gauge(descPool, float64(s.Pool.Idle), "idle")
	gauge(descPool, float64(s.Pool.Total-s.Pool.Idle), "busy")
	ch <- roundTrips(&s)
}

// roundTrips is a histogram, which Prometheus wants cumulated.
func roundTrips(s *redisstore.Stats) prometheus.Metric {
	buckets, sum := make(map[float64]uint64, len(redisstore.RoundTripBounds)), uint64(0)
	for i, bound := range redisstore.RoundTripBounds {
		sum += s.RoundTrips[i]
		buckets[bound.Seconds()] = sum
	}
	sum += s.RoundTrips[len(redisstore.RoundTripBounds)]
	return prometheus.MustNewConstHistogram(descRoundTrip, sum, s.RoundTripSum.Seconds(), buckets)
}
