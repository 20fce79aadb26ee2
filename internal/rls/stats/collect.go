package stats

import (
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// calls are measured by method.
type calls struct {
	requests *prometheus.CounterVec
	time     *prometheus.HistogramVec
}

func newCalls() calls {
	method := []string{"grpc_method"}
	return calls{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ratelimit_service_total_requests", Help: "Calls."}, method),
		time: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ratelimit_service_response_time_seconds", Help: "Time that calls took.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, method),
	}
}

// Observe counts a call of a method that took so many seconds.
func (r *Registry) Observe(method string, seconds float64) {
	r.calls.requests.WithLabelValues(method).Inc()
	r.calls.time.WithLabelValues(method).Observe(seconds)
}

// Handler serves all metrics.
func (r *Registry) Handler() http.Handler {
	all := prometheus.NewRegistry()
	all.MustRegister(
		r.calls.requests, r.calls.time, collector{r},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		counter("evictions", "Counters in memory that were forgotten before their windows were over.", nil, r.evictions),
		counter("config_load_success", "Configurations that were put in force.", nil, r.ConfigLoads.Load),
		counter("config_load_error", "Configurations that had mistakes.", nil, r.ConfigErrors.Load),
		counter("global_shadow_mode", "Requests over a limit that SHADOW_MODE has admitted.", nil, r.GlobalShadow.Load),
		counter("should_rate_limit_error", "Calls that failed.", prometheus.Labels{"err_type": "service_error"}, r.ServiceErrors.Load),
	)
	if r.cluster != nil {
		all.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "ratelimit_service_cluster_peers", Help: "Other nodes that are up.",
			}, func() float64 { return float64(r.cluster().Peers) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "ratelimit_service_cluster_unsent", Help: "Counters that were not sent to the other nodes, for lack of room.",
			}, func() float64 { return float64(r.cluster().Unsent) }),
			counter("cluster_rejected", "Packets and streams that were dropped.", nil, func() uint64 { return r.cluster().Rejected }),
		)
	}
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{})
}

func counter(name, help string, labels prometheus.Labels, read func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "ratelimit_service_" + name, Help: help, ConstLabels: labels}, func() float64 { return float64(read()) })
}

// collector makes metrics of the limits in a registry.
type collector struct{ *Registry }

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("ratelimit_service_rate_limit_"+name, help, []string{"domain", "key1", "key2"}, nil)
}

// hits are the metrics of a limit.
var hits = []struct {
	desc *prometheus.Desc
	of   func(*Series) *atomic.Uint64
}{
	{desc("total_hits", "Hits of a limit."), func(s *Series) *atomic.Uint64 { return &s.Total }},
	{desc("within_limit", "Hits within a limit."), func(s *Series) *atomic.Uint64 { return &s.Within }},
	{desc("near_limit", "Hits within a limit that are near it."), func(s *Series) *atomic.Uint64 { return &s.Near }},
	{desc("over_limit", "Hits over a limit."), func(s *Series) *atomic.Uint64 { return &s.Over }},
	{desc("shadow_mode", "Hits over a limit in shadow mode."), func(s *Series) *atomic.Uint64 { return &s.Shadow }},
}

// Describe implements [prometheus.Collector].
func (collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range hits {
		to <- m.desc
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) {
	c.each(func(l Labels, s *Series) {
		for _, m := range hits {
			to <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.of(s).Load()), l.Domain, l.Key1, l.Key2)
		}
	})
}
