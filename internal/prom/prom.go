// Package prom turns a struct of counters into a Prometheus collector, so that the
// packages that count need not know Prometheus. A table has one [Metric] for each
// name, with the function that reads it from the struct. The struct is read once per
// scrape.
package prom

import "github.com/prometheus/client_golang/prometheus"

// Metric is one metric name and how to read it from an S.
type Metric[S any] struct {
	desc    *prometheus.Desc
	collect func(s *S, d *prometheus.Desc, ch chan<- prometheus.Metric)
}

func metric[S any](name, help string, labels []string, collect func(*S, *prometheus.Desc, chan<- prometheus.Metric)) Metric[S] {
	return Metric[S]{prometheus.NewDesc("fastlimit_"+name, help, labels, nil), collect}
}

// Counter is a counter without labels.
func Counter[S any](name, help string, read func(s *S) uint64) Metric[S] {
	return Counters(name, help, nil, func(s *S, add func(uint64, ...string)) { add(read(s)) })
}

// Gauge is a gauge without labels.
func Gauge[S any](name, help string, read func(s *S) float64) Metric[S] {
	return Gauges(name, help, nil, func(s *S, set func(float64, ...string)) { set(read(s)) })
}

// Counters is a counter with labels. each calls add once per series; label
// values must come from a closed set.
func Counters[S any](name, help string, labels []string, each func(s *S, add func(n uint64, values ...string))) Metric[S] {
	return series(prometheus.CounterValue, name, help, labels, each)
}

// Gauges is a gauge with labels. each calls set once per series; label values
// must come from a closed set.
func Gauges[S any](name, help string, labels []string, each func(s *S, set func(v float64, values ...string))) Metric[S] {
	return series(prometheus.GaugeValue, name, help, labels, each)
}

// series is a metric with labels. It panics on a label value that is not UTF-8.
func series[S any, V uint64 | float64](kind prometheus.ValueType, name, help string, labels []string, each func(*S, func(V, ...string))) Metric[S] {
	return metric(name, help, labels, func(s *S, d *prometheus.Desc, ch chan<- prometheus.Metric) {
		each(s, func(v V, values ...string) {
			ch <- prometheus.MustNewConstMetric(d, kind, float64(v), values...)
		})
	})
}

// Histogram is a histogram without labels. read returns the number and the sum
// of all observations, and how many of them are at or below each bound.
func Histogram[S any](name, help string, read func(s *S) (n uint64, sum float64, atMost map[float64]uint64)) Metric[S] {
	return Histograms(name, help, nil, func(s *S, show func(uint64, float64, map[float64]uint64, ...string)) {
		n, sum, atMost := read(s)
		show(n, sum, atMost)
	})
}

// Histograms is a histogram with labels. each calls show once per series; label values must
// come from a closed set.
func Histograms[S any](name, help string, labels []string, each func(s *S, show func(n uint64, sum float64, atMost map[float64]uint64, values ...string))) Metric[S] {
	return metric(name, help, labels, func(s *S, d *prometheus.Desc, ch chan<- prometheus.Metric) {
		each(s, func(n uint64, sum float64, atMost map[float64]uint64, values ...string) {
			ch <- prometheus.MustNewConstHistogram(d, n, sum, atMost, values...)
		})
	})
}

// Collector returns a collector of what stats returns, which it calls once per
// scrape, concurrently. It is safe for concurrent use if stats is.
func Collector[S any](stats func() S, metrics []Metric[S]) prometheus.Collector {
	return &collector[S]{stats, metrics}
}

type collector[S any] struct {
	stats   func() S
	metrics []Metric[S]
}

// Describe implements prometheus.Collector.
func (c *collector[S]) Describe(ch chan<- *prometheus.Desc) {
	for i := range c.metrics {
		ch <- c.metrics[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector[S]) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	for i := range c.metrics {
		c.metrics[i].collect(&s, c.metrics[i].desc, ch)
	}
}
