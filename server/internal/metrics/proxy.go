package metrics

import "github.com/fastlimit/fastlimit/internal/prom"

// Proxied are the results of requests that were passed on.
type Proxied struct {
	Answers, Failures map[string]uint64 // by class of status, by reason
	Retries           uint64
	Broken            uint64
	Left              uint64
	Tunnels           int64
}

// ofProxy are the metrics of requests that are passed on.
var ofProxy = []prom.Metric[Stats]{
	prom.Counters("upstream_answers_total", "Answers of upstream servers, by status class.", []string{"class"},
		ofPassed(func(p *Proxied, add func(uint64, ...string)) {
			for class, n := range p.Answers {
				add(n, class)
			}
		})),
	prom.Counters("upstream_unanswered_total", "Admitted requests that this proxy answered itself because no server did, by reason.", []string{"reason"},
		ofPassed(func(p *Proxied, add func(uint64, ...string)) {
			for reason, n := range p.Failures {
				add(n, reason)
			}
		})),
	prom.Counters("upstream_retries_total", "Requests that were sent again, because the server had closed an idle connection.", nil,
		ofPassed(func(p *Proxied, add func(uint64, ...string)) { add(p.Retries) })),
	prom.Counters("upstream_broken_answers_total", "Answers that were cut off.", nil,
		ofPassed(func(p *Proxied, add func(uint64, ...string)) { add(p.Broken) })),
	prom.Counters("upstream_clients_left_total", "Requests whose client disconnected before it had the answer.", nil,
		ofPassed(func(p *Proxied, add func(uint64, ...string)) { add(p.Left) })),
	prom.Gauges("upgraded_connections", "Connections that were upgraded, such as WebSockets.", nil,
		func(s *Stats, set func(float64, ...string)) {
			if s.Proxied != nil {
				set(float64(s.Proxied.Tunnels))
			}
		}),
}

// ofPassed reads a proxy's counts, if there is one.
func ofPassed(read func(p *Proxied, add func(uint64, ...string))) func(*Stats, func(uint64, ...string)) {
	return func(s *Stats, add func(uint64, ...string)) {
		if s.Proxied != nil {
			read(s.Proxied, add)
		}
	}
}
