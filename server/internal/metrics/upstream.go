package metrics

import (
	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// ofUpstream are the metrics of a proxy's connections to its servers. A server is named as
// the file has it.
var ofUpstream = []prom.Metric[Stats]{
	prom.Gauges("upstream_connections", "Connections to upstream servers, by state. Those in use include those being dialled.", []string{"server", "state"},
		func(s *Stats, set func(float64, ...string)) {
			ofServers(s, func(u *upstream.ServerStats) {
				set(float64(u.InUse), u.Name, "in_use")
				set(float64(u.Idle), u.Name, "idle")
			})
		}),
	prom.Gauges("upstream_ejected", "1 while a server gets no requests because it has failed, but for one that probes it now and then.", []string{"server"},
		func(s *Stats, set func(float64, ...string)) {
			ofServers(s, func(u *upstream.ServerStats) {
				ejected := 0.0
				if u.Ejected {
					ejected = 1
				}
				set(ejected, u.Name)
			})
		}),
	perServer("upstream_requests_total", "Requests that got a connection to a server; one that is repeated counts again.",
		func(u *upstream.ServerStats) uint64 { return u.Requests }),
	perServer("upstream_failures_total", "Requests to which a server gave no answer, or nonsense. Failures to connect are not among them.",
		func(u *upstream.ServerStats) uint64 { return u.Failures }),
	perServer("upstream_ejections_total", "How often a server was left out because it had failed several times in a row.",
		func(u *upstream.ServerStats) uint64 { return u.Ejections }),
	perServer("upstream_dials_total", "Connections that were begun, those that failed included.",
		func(u *upstream.ServerStats) uint64 { return u.Dials }),
	prom.Counters("upstream_dial_errors_total", "Connections that failed, by class.", []string{"server", "class"},
		func(s *Stats, add func(uint64, ...string)) {
			ofServers(s, func(u *upstream.ServerStats) {
				for class, n := range u.DialErrors {
					add(n, u.Name, class)
				}
			})
		}),
	prom.Gauges("upstream_queue", "Requests that wait for a connection.", nil,
		func(s *Stats, set func(float64, ...string)) {
			if s.Upstream != nil {
				set(float64(s.Upstream.Queue))
			}
		}),
	prom.Counters("upstream_queue_total", "Requests that found no connection free, by what became of them.",
		[]string{"outcome"}, func(s *Stats, add func(uint64, ...string)) {
			if u := s.Upstream; u != nil {
				add(u.Served, "served")
				add(u.TimedOut, "timeout")
				add(u.Left, "left")
				add(u.Full, "full")
			}
		}),
}

// perServer is a counter of each server.
func perServer(name, help string, read func(u *upstream.ServerStats) uint64) prom.Metric[Stats] {
	return prom.Counters(name, help, []string{"server"}, func(s *Stats, add func(uint64, ...string)) {
		ofServers(s, func(u *upstream.ServerStats) { add(read(u), u.Name) })
	})
}

// ofServers calls back for each server, if there are any.
func ofServers(s *Stats, each func(u *upstream.ServerStats)) {
	if s.Upstream != nil {
		for i := range s.Upstream.Servers {
			each(&s.Upstream.Servers[i])
		}
	}
}
