// Package metrics exports a server's counts to Prometheus. Requests touch none of it: counters are read when
// they are scraped, from a [Stats].
//
// A new metric is a field of Stats, filled in by server/info.go, and a line in the
// table. Its name, labels and type go into testdata/metrics.txt, since dashboards
// and alerts depend on them.
package metrics

import (
	"log/slog"
	"net/http"
	"runtime"
	"slices"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Stats are the counters and levels of a server, read by one scrape. They are not of one instant: a
// concurrent request may be in some and not in others. Counters never fall, not even when a reload replaces
// rules.
type Stats struct {
	Version string

	Requests         Requests
	Durations        Durations
	Overloaded       map[string]uint64 // seconds, by reason
	Ready            bool
	Rules            []Rule
	FirstSeenClients float64

	Bad                 map[string]uint64 // by reason
	Untrusted, Unnamed  uint64
	Connections         map[string]int     // by state
	AtDoor, Kept        uint64             // connections answered when they were accepted, and all others
	Rejected, Dismissed map[string]uint64  // connections, by reason
	ProxyErrors         map[string]uint64  // by reason
	HandshakeErrors     map[string]uint64  // by class
	Expiry              map[string]float64 // of certificates, by their listener's address
	HTTP2               HTTP2
	RefusedStreams      map[string]uint64 // of HTTP/2, by reason
	AcceptErrors        uint64
	DroppedLines        uint64          // of the access log
	LostLogs            func() uint64   // nil: not counted
	Upstream            *upstream.Stats // nil: there is none
	Proxied             *Proxied        // likewise
	Kernel              *Kernel         // likewise
}

// Requests are the results of requests: by rules, by lists, and by operators' bans.
type Requests struct{ Allowed, Denied, ListAllowed, ListDenied, Banned uint64 }

// HTTP2 counts what clients of HTTP/2 do.
type HTTP2 struct {
	Connections          int64 // open now
	Streams, Resets, Cut uint64
}

// Rule is what the rules of one name and mode have counted, replaced ones included.
type Rule struct {
	Name, Mode string
	InUse      bool // if not, it has counts but no levels
	fastlimit.RuleStats
}

// Handler shows what stats returns, the metrics of Go and the process, and others. It has its own registry,
// so that two servers in one process do not interfere.
func Handler(stats func() Stats, others []prometheus.Collector, log *slog.Logger) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(
		prom.Collector(stats, table),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	r.MustRegister(others...)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelError)})
}

// All label values come from closed sets, rule names and constants, so that no client can make series. Every
// series exists from the first scrape on, with 0 in it, as rate() and alerts on the first event require.
var table = slices.Concat(ofServer, ofAudit, ofDurations, ofUpstream, ofProxy, ofKernel)

var ofServer = []prom.Metric[Stats]{
	prom.Counters("requests_total", "Requests decided, by decision.", []string{"decision"},
		func(s *Stats, add func(uint64, ...string)) {
			add(s.Requests.Allowed+s.Requests.ListAllowed, "allow")
			add(s.Requests.Denied+s.Requests.ListDenied+s.Requests.Banned, "deny")
		}),
	prom.Counters("decisions_total", "Decisions by rule and the stage that made them. For stage list, rule is empty if an allow or deny list decided; otherwise it names the rule that exempts the client. For stage ban, it is empty if an operator banned the client.",
		[]string{"rule", "stage", "mode", "decision"}, decisions),
	prom.Gauge("first_seen_clients", "Estimated distinct clients in the current window of the first-seen filter, all rules together.",
		func(s *Stats) float64 { return s.FirstSeenClients }),
	level("sketch_load", "Share of cells in use in a rule's sketch. Above 0.5, noise makes many clients suspects.",
		func(r *Rule) float64 { return r.SketchLoad }),
	level("table_live", "Active exact buckets, as a share of those that the table holds.",
		func(r *Rule) float64 { return r.TableLive }),
	sum("exact_evictions_total", "Active exact buckets that were evicted.", func(r *Rule) uint64 { return r.Evictions }),
	sum("exact_forgiven_units_total", "Units in active exact buckets that were evicted: at most this much was admitted beyond the limits.",
		func(r *Rule) uint64 { return r.Forgiven }),
	prom.Gauges("waiting", "Requests that wait in the queue instead of being denied.", []string{"rule"},
		func(s *Stats, set func(float64, ...string)) {
			waits(s, func(name string, w fastlimit.WaitStats) { set(float64(w.Waiting), name) })
		}),
	prom.Counters("waits_total", "Requests that could wait, by outcome: admitted or denied after waiting, client disconnected, or no slot in the queue.",
		[]string{"rule", "outcome"}, func(s *Stats, add func(uint64, ...string)) {
			waits(s, func(name string, w fastlimit.WaitStats) {
				add(w.Admitted, name, "admitted")
				add(w.Left, name, "left")
				add(w.Denied, name, "denied")
				add(w.Refused, name, "refused")
			})
		}),
	prom.Counters("bad_costs_total", "Requests for which a trusted proxy sent a cost that is not valid.", []string{"rule", "mode"},
		func(s *Stats, add func(uint64, ...string)) {
			for i := range s.Rules {
				add(s.Rules[i].BadCosts, s.Rules[i].Name, s.Rules[i].Mode)
			}
		}),
	prom.Counters("bad_rates_total", "Requests for which a trusted proxy sent a rate that does not parse: they were charged at the rule's own rate.", []string{"rule", "mode"},
		func(s *Stats, add func(uint64, ...string)) {
			for i := range s.Rules {
				add(s.Rules[i].BadRates, s.Rules[i].Name, s.Rules[i].Mode)
			}
		}),
	prom.Counters("bans_total", "Bans that a rule has begun, or would have in shadow mode.", []string{"rule", "mode"},
		func(s *Stats, add func(uint64, ...string)) {
			for i := range s.Rules {
				add(s.Rules[i].Bans, s.Rules[i].Name, s.Rules[i].Mode)
			}
		}),
	level("bans_active", "Clients that a rule bans now, or would in shadow mode.", func(r *Rule) float64 { return float64(r.BansRunning) }),
	prom.Counters("bans_refused_total", "Bans by a rule that did not begin, by reason; full: there was no room.", []string{"rule", "reason"},
		func(s *Stats, add func(uint64, ...string)) {
			names, sums := byName(s, func(sum *uint64, r *Rule) { *sum += r.BansRefused })
			for _, name := range names {
				add(*sums[name], name, "full")
			}
		}),
	byReason("bad_requests_total", "Requests refused before they were counted for a client.", func(s *Stats) map[string]uint64 { return s.Bad }),
	prom.Counter("untrusted_proxy_requests_total", "Requests that seem to come from a proxy that is not in trusted_proxies.", func(s *Stats) uint64 { return s.Untrusted }),
	prom.Counter("unnamed_requests_total", "Requests from trusted proxies that named no client or no original request.", func(s *Stats) uint64 { return s.Unnamed }),
	prom.Gauges("connections", "Open connections on the traffic listeners, by state.", []string{"state"},
		func(s *Stats, set func(float64, ...string)) {
			for state, n := range s.Connections {
				set(float64(n), state)
			}
		}),
	byReason("overloaded_seconds_total", "Seconds in which the server itself could not keep up, by reason: cpu, connections, logs.",
		func(s *Stats) map[string]uint64 { return s.Overloaded }),
	prom.Gauge("ready", "1 while /readyz answers 200.", func(s *Stats) float64 {
		if s.Ready {
			return 1
		}
		return 0
	}),
	prom.Counters("connections_accepted_total", "Connections accepted: door, those that ended there; kept, all others that were not refused.", []string{"way"},
		func(s *Stats, add func(uint64, ...string)) {
			add(s.AtDoor, "door")
			add(s.Kept, "kept")
		}),
	byReason("connections_rejected_total", "Connections refused because no other one could be closed for them, among all or among those of their client.",
		func(s *Stats) map[string]uint64 { return s.Rejected }),
	byReason("connections_dismissed_total", "Connections closed early to make room: for other connections, for other connections of the same client, for other long request heads, or after a denial.",
		func(s *Stats) map[string]uint64 { return s.Dismissed }),
	byReason("proxy_protocol_errors_total", "Connections whose PROXY header was missing, malformed or late, or came from a peer that may not send one.",
		func(s *Stats) map[string]uint64 { return s.ProxyErrors }),
	prom.Counters("tls_handshake_errors_total", "TLS handshakes that failed, by class.", []string{"class"},
		func(s *Stats, add func(uint64, ...string)) {
			for class, n := range s.HandshakeErrors {
				add(n, class)
			}
		}),
	prom.Gauges("tls_certificate_expiry_timestamp_seconds", "When the certificate of a listener expires, in seconds since 1970.", []string{"address"},
		func(s *Stats, set func(float64, ...string)) {
			for address, at := range s.Expiry {
				set(at, address)
			}
		}),
	prom.Gauge("http2_connections", "Open connections that speak HTTP/2.", func(s *Stats) float64 { return float64(s.HTTP2.Connections) }),
	prom.Counter("http2_streams_total", "Requests over HTTP/2.", func(s *Stats) uint64 { return s.HTTP2.Streams }),
	prom.Counter("http2_resets_total", "Requests over HTTP/2 that their clients gave up before the answer had ended.", func(s *Stats) uint64 { return s.HTTP2.Resets }),
	byReason("http2_streams_refused_total", "Requests over HTTP/2 that were answered 503 because too many were in progress: of all, or of their client.",
		func(s *Stats) map[string]uint64 { return s.RefusedStreams }),
	prom.Counter("http2_connections_cut_total", "Connections that were cut off because their clients gave up most requests.", func(s *Stats) uint64 { return s.HTTP2.Cut }),
	prom.Counter("accept_errors_total", "Connections that could not be accepted, mostly because file descriptors ran out.", func(s *Stats) uint64 { return s.AcceptErrors }),
	prom.Counter("access_log_dropped_total", "Lines of the access log that were dropped because its file was slow or could not be written.",
		func(s *Stats) uint64 { return s.DroppedLines }),
	prom.Counters("log_lines_lost_total", "Log lines lost because the reader of the log went away.", nil,
		func(s *Stats, add func(uint64, ...string)) {
			if s.LostLogs != nil {
				add(s.LostLogs())
			}
		}),
	prom.Gauges("build_info", "Constant 1.", []string{"version", "goversion"},
		func(s *Stats, set func(float64, ...string)) { set(1, s.Version, runtime.Version()) }),
}

// decisions splits requests_total by what decided. Lists and operators' bans come before all rules and have
// no mode: their decisions are always enforced. At the list stage a rule has admitted clients whose overrides
// are unlimited; a ban admits nobody.
func decisions(s *Stats, add func(uint64, ...string)) {
	list, enforce := fastlimit.StageList.String(), fastlimit.Enforce.String()
	add(s.Requests.ListAllowed, "", list, enforce, "allow")
	add(s.Requests.ListDenied, "", list, enforce, "deny")
	add(s.Requests.Banned, "", fastlimit.StageBan.String(), enforce, "deny")
	for i := range s.Rules {
		r := &s.Rules[i]
		for _, stage := range limit.Stages() {
			if stage != fastlimit.StageBan {
				add(r.Allowed[stage], r.Name, stage.String(), r.Mode, "allow")
			}
			if stage != fastlimit.StageList {
				add(r.Denied[stage], r.Name, stage.String(), r.Mode, "deny")
			}
		}
	}
}

// waits calls show for each rule name, with the sum over its modes: requests may have waited before the rule
// went into shadow mode.
func waits(s *Stats, show func(name string, w fastlimit.WaitStats)) {
	names, sums := byName(s, func(sum *fastlimit.WaitStats, r *Rule) {
		w := &r.Waits
		sum.Waiting += w.Waiting
		sum.Admitted += w.Admitted
		sum.Left += w.Left
		sum.Denied += w.Denied
		sum.Refused += w.Refused
	})
	for _, name := range names {
		show(name, *sums[name])
	}
}

// byName adds up by rule name, for series without a label for the mode.
func byName[T any](s *Stats, add func(sum *T, r *Rule)) (names []string, sums map[string]*T) {
	sums = map[string]*T{}
	for i := range s.Rules {
		r := &s.Rules[i]
		if sums[r.Name] == nil {
			names, sums[r.Name] = append(names, r.Name), new(T)
		}
		add(sums[r.Name], r)
	}
	return names, sums
}

// level is a gauge with a series for each rule in use.
func level(name, help string, read func(r *Rule) float64) prom.Metric[Stats] {
	return prom.Gauges(name, help, []string{"rule"}, func(s *Stats, set func(float64, ...string)) {
		for i := range s.Rules {
			if r := &s.Rules[i]; r.InUse {
				set(read(r), r.Name)
			}
		}
	})
}

// sum is a counter over all rules, including replaced ones. It has no label for the rule because one series
// is enough to alert on: the log names the rule.
func sum(name, help string, read func(r *Rule) uint64) prom.Metric[Stats] {
	return prom.Counter(name, help, func(s *Stats) (n uint64) {
		for i := range s.Rules {
			n += read(&s.Rules[i])
		}
		return n
	})
}

// byReason is a counter with a series for each reason.
func byReason(name, help string, read func(s *Stats) map[string]uint64) prom.Metric[Stats] {
	return prom.Counters(name, help, []string{"reason"}, func(s *Stats, add func(uint64, ...string)) {
		for reason, n := range read(s) {
			add(n, reason)
		}
	})
}
