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
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "ratelimit_service_evictions", Help: "Counters in memory that were forgotten before their windows were over.",
		}, func() float64 { return float64(r.evictions()) }),
	)
	if r.cluster != nil {
		all.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "ratelimit_service_cluster_peers", Help: "Other nodes that are up.",
			}, func() float64 { return float64(r.cluster().Peers) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "ratelimit_service_cluster_unsent", Help: "Counters that the other nodes have not been told, for lack of room.",
			}, func() float64 { return float64(r.cluster().Unsent) }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "ratelimit_service_cluster_rejected", Help: "Packets and streams that were dropped.",
			}, func() float64 { return float64(r.cluster().Rejected) }),
		)
	}
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{})
}

// collector makes metrics of a registry.
type collector struct{ *Registry }

var limitLabels = []string{"domain", "key1", "key2"}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ratelimit_service_"+name, help, labels, nil)
}

// hits are the metrics of a limit.
var hits = []struct {
	desc *prometheus.Desc
	of   func(*Series) *atomic.Uint64
}{
	{desc("rate_limit_total_hits", "Hits of a limit.", limitLabels...), func(s *Series) *atomic.Uint64 { return &s.Total }},
	{desc("rate_limit_within_limit", "Hits within a limit.", limitLabels...), func(s *Series) *atomic.Uint64 { return &s.Within }},
	{desc("rate_limit_near_limit", "Hits within a limit that are near it.", limitLabels...), func(s *Series) *atomic.Uint64 { return &s.Near }},
	{desc("rate_limit_over_limit", "Hits over a limit.", limitLabels...), func(s *Series) *atomic.Uint64 { return &s.Over }},
	{desc("rate_limit_shadow_mode", "Hits over a limit in shadow mode.", limitLabels...), func(s *Series) *atomic.Uint64 { return &s.Shadow }},
}

// totals are the metrics of the service.
var totals = []struct {
	desc   *prometheus.Desc
	of     func(*Registry) *atomic.Uint64
	labels []string
}{
	{desc("config_load_success", "Configurations that were put in force."), func(r *Registry) *atomic.Uint64 { return &r.ConfigLoads }, nil},
	{desc("config_load_error", "Configurations that had mistakes."), func(r *Registry) *atomic.Uint64 { return &r.ConfigErrors }, nil},
	{desc("global_shadow_mode", "Requests over a limit that SHADOW_MODE has admitted."), func(r *Registry) *atomic.Uint64 { return &r.GlobalShadow }, nil},
	{desc("should_rate_limit_error", "Calls that failed.", "err_type"), func(r *Registry) *atomic.Uint64 { return &r.ServiceErrors }, []string{"service_error"}},
}

// Describe implements [prometheus.Collector].
func (collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range hits {
		to <- m.desc
	}
	for _, m := range totals {
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
	for _, m := range totals {
		to <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.of(c.Registry).Load()), m.labels...)
	}
}
