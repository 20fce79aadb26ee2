package server

import (
	"runtime"

	"github.com/fastlimit/fastlimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newRegistry is a registry of its own, so that two servers in one process do
// not meet, with what Go and the process tell of themselves.
func (s *Server) newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		&collector{s},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	r.MustRegister(s.config.Collectors...)
	return r
}

// collector reads the counters when it is scraped; requests touch nothing of
// Prometheus. All label values come from closed sets: rule names and constants.
// Safe for concurrent use.
type collector struct{ *Server }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("fastlimit_"+name, help, labels, nil)
}

var (
	descRequests  = desc("requests_total", "Requests decided, by decision.", "decision")
	descDecisions = desc("decisions_total", "Decisions by rule and the stage that made them. The rule is empty at stage list.",
		"rule", "stage", "mode", "decision")
	descFirstSeen  = desc("first_seen_clients", "Estimated distinct clients in the current window of the first-seen filter, all rules together.")
	descSketchLoad = desc("sketch_load", "Share of cells in use in a rule's sketch. Above 0.5 noise makes many clients suspects.", "rule")
	descTableLive  = desc("table_live", "Active exact buckets, as a share of those the table holds.", "rule")
	descForgiven   = desc("exact_forgiven_units_total", "Units in active exact buckets that were evicted: at most this much was admitted beyond the limits.")
	descEvictions  = desc("exact_evictions_total", "Active exact buckets that were evicted.")
	descBad        = desc("bad_requests_total", "Requests refused before they were counted for a client.", "reason")
	descUntrusted  = desc("untrusted_proxy_requests_total", "Requests that seem to come from a proxy that is not trusted.")
	descUnnamed    = desc("unnamed_requests_total", "Requests from trusted proxies that named no client or no original request.")
	descConns      = desc("connections", "Open connections on the traffic listeners.")
	descRejected   = desc("connections_rejected_total", "Connections refused because none could be closed in their place: of all, or of their client.", "reason")
	descDismissed  = desc("connections_dismissed_total", "Connections closed early to make room: for others, for others of the same client, for other long heads, or after a denial.", "reason")
	descAccept     = desc("accept_errors_total", "Failures to accept a connection, mostly for lack of file descriptors.")
	descLostLogs   = desc("log_lines_lost_total", "Log lines lost because the reader of the log went away.")
	descBuild      = desc("build_info", "Constant 1.", "version", "goversion")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descRequests, descDecisions, descFirstSeen, descSketchLoad, descTableLive, descEvictions, descForgiven,
		descBad, descUntrusted, descUnnamed, descConns, descRejected, descDismissed, descAccept, descLostLogs, descBuild,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	n := c.requests()
	count(descRequests, n[outcomeAllow]+n[outcomeListAllow], "allow")
	count(descRequests, n[outcomeDeny]+n[outcomeListDeny], "deny")
	list, enforce := fastlimit.StageList.String(), fastlimit.Enforce.String()
	count(descDecisions, n[outcomeListAllow], "", list, enforce, "allow")
	count(descDecisions, n[outcomeListDeny], "", list, enforce, "deny")

	evictions, forgiven := uint64(0), uint64(0)
	for _, r := range c.limiter.Rules() {
		stats, name, mode := r.Stats(), r.Name(), r.Config().Mode.String()
		for _, stage := range fastlimit.Stages() {
			if stage == fastlimit.StageList {
				continue
			}
			count(descDecisions, stats.Allowed[stage], name, stage.String(), mode, "allow")
			count(descDecisions, stats.Denied[stage], name, stage.String(), mode, "deny")
		}
		gauge(descSketchLoad, stats.SketchLoad, name)
		gauge(descTableLive, stats.TableLive, name)
		evictions, forgiven = evictions+stats.Evictions, forgiven+stats.Forgiven
	}
	count(descEvictions, evictions)
	count(descForgiven, forgiven)
	gauge(descFirstSeen, float64(c.limiter.FirstSeenClients()))
	for _, f := range c.faults.all() {
		count(descBad, f.count.Load(), f.reason)
	}
	count(descUntrusted, c.untrusted())
	count(descUnnamed, c.unnamed())
	count(descAccept, c.acceptErrors.Load())
	if c.config.LostLogs != nil {
		count(descLostLogs, c.config.LostLogs())
	}
	gauge(descConns, float64(c.conns.count()))
	for why := range reasonCount {
		if why < reasonLarge {
			count(descRejected, c.conns.rejected[why].Load(), reasonNames[why])
		}
		count(descDismissed, c.conns.dismissed[why].Load(), reasonNames[why])
	}
	gauge(descBuild, 1, c.config.Version, runtime.Version())
}
