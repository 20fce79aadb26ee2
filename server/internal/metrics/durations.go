package metrics

import (
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/fastlimit/fastlimit/server/internal/latency"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// Durations are how long requests take.
type Durations struct {
	Decisions       []latency.Counts // of one of [latency.Every], by stage
	Allowed, Denied latency.Counts   // requests; likewise
	Waited          latency.Counts   // of all requests that waited for a slot
}

var ofDurations = []prom.Metric[Stats]{
	histograms("decision_duration_seconds", "Time of a decision, including waits in the queue or for the store, by the stage that made it. One in 61 requests is measured.",
		[]string{"stage"}, func(s *Stats, show func(*latency.Counts, ...string)) {
			for stage := range s.Durations.Decisions {
				show(&s.Durations.Decisions[stage], fastlimit.Stage(stage).String())
			}
		}),
	histograms("request_duration_seconds", "Time from the arrival of a request's head until its answer was ready, or forwarded from an upstream. One in 61 requests is measured.",
		[]string{"decision"}, func(s *Stats, show func(*latency.Counts, ...string)) {
			show(&s.Durations.Allowed, "allow")
			show(&s.Durations.Denied, "deny")
		}),
	histograms("wait_duration_seconds", "Time that requests waited in the queue, whatever the outcome.", nil,
		func(s *Stats, show func(*latency.Counts, ...string)) { show(&s.Durations.Waited) }),
	histograms("upstream_connect_duration_seconds", "Time to connect to a server, including TLS, whether it succeeded or not.", []string{"server"},
		func(s *Stats, show func(*latency.Counts, ...string)) {
			ofServers(s, func(u *upstream.ServerStats) { show(&u.Connect, u.Name) })
		}),
	histograms("upstream_first_byte_duration_seconds", "Time from sending a request to the first byte of its answer.", []string{"server"},
		func(s *Stats, show func(*latency.Counts, ...string)) {
			ofServers(s, func(u *upstream.ServerStats) { show(&u.FirstByte, u.Name) })
		}),
	histograms("upstream_queue_duration_seconds", "Time that requests waited for a connection to a server, whatever the outcome.", nil,
		func(s *Stats, show func(*latency.Counts, ...string)) {
			if s.Upstream != nil {
				show(&s.Upstream.Queued)
			}
		}),
}

// histograms shows counts as Prometheus has them: each bucket includes those before it.
func histograms(name, help string, labels []string, each func(s *Stats, show func(c *latency.Counts, values ...string))) prom.Metric[Stats] {
	return prom.Histograms(name, help, labels, func(s *Stats, show func(uint64, float64, map[float64]uint64, ...string)) {
		each(s, func(c *latency.Counts, values ...string) {
			n, atMost := uint64(0), make(map[float64]uint64, len(latency.Bounds))
			for i, bound := range latency.Bounds {
				n += c.Buckets[i]
				atMost[bound.Seconds()] = n
			}
			show(n+c.Buckets[len(latency.Bounds)], c.Sum.Seconds(), atMost, values...)
		})
	})
}
