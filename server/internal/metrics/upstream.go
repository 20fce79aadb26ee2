package metrics

import (
	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// ofUpstream are the metrics of a proxy's connections to its servers. A server is named as in the file.
var ofUpstream = []prom.Metric[Stats]{
	prom.Gauges("upstream_connections", "Connections to upstream servers, by state. Those in use include those being opened.", []string{"server", "state"},
		func(s *Stats, set func(float64, ...string)) {
			ofServers(s, func(u *upstream.ServerStats) {
				set(float64(u.InUse), u.Name, "in_use")
				set(float64(u.Idle), u.Name, "idle")
			})
		}),
	prom.Gauges("upstream_ejected", "1 while a server gets no requests because it has failed, apart from an occasional probe.", []string{"server"},
		func(s *Stats, set func(float64, ...string)) {
			ofServers(s, func(u *upstream.ServerStats) {
				ejected := 0.0
				if u.Ejected {
					ejected = 1
				}
				set(ejected, u.Name)
			})
		}),
	perServer("upstream_requests_total", "Requests that got a connection to a server; a retried one counts again.",
		func(u *upstream.ServerStats) uint64 { return u.Requests }),
	perServer("upstream_failures_total", "Requests that a server did not answer, or answered with malformed data. Failures to connect are not included.",
		func(u *upstream.ServerStats) uint64 { return u.Failures }),
	perServer("upstream_ejections_total", "Times that a server was ejected because it had failed several times in a row.",
		func(u *upstream.ServerStats) uint64 { return u.Ejections }),
	perServer("upstream_dials_total", "Connection attempts, including failed ones.",
		func(u *upstream.ServerStats) uint64 { return u.Dials }),
	prom.Counters("upstream_dial_errors_total", "Connection attempts that failed, by class.", []string{"server", "class"},
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
	prom.Counters("upstream_queue_total", "Requests that found no free connection, by outcome.",
		[]string{"outcome"}, func(s *Stats, add func(uint64, ...string)) {
			if u := s.Upstream; u != nil {
				add(u.Served, "served")
				add(u.TimedOut, "timeout")
				add(u.Left, "left")
				add(u.Full, "full")
			}
		}),
}

// perServer is a counter with a series for each server.
func perServer(name, help string, read func(u *upstream.ServerStats) uint64) prom.Metric[Stats] {
	return prom.Counters(name, help, []string{"server"}, func(s *Stats, add func(uint64, ...string)) {
		ofServers(s, func(u *upstream.ServerStats) { add(read(u), u.Name) })
	})
}

// ofServers calls each for each server, if there are any.
func ofServers(s *Stats, each func(u *upstream.ServerStats)) {
	if s.Upstream != nil {
		for i := range s.Upstream.Servers {
			each(&s.Upstream.Servers[i])
		}
	}
}
