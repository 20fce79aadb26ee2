package metrics

import (
	"github.com/fastlimit/fastlimit/internal/overrides"
	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/prometheus/client_golang/prometheus"
)

// Overrides returns a collector of the overrides of rules, in the file and live.
func Overrides(stats func() overrides.Stats) prometheus.Collector {
	return prom.Collector(stats, overrideMetrics)
}

var overrideMetrics = []prom.Metric[overrides.Stats]{
	prom.Gauges("overrides", "Overrides in force on this node, by source: file, or live for those that operators set.", []string{"rule", "source"},
		func(s *overrides.Stats, set func(float64, ...string)) {
			for _, r := range s.Rules {
				set(float64(r.File), r.Rule, "file")
				set(float64(r.Live), r.Rule, "live")
			}
		}),
	prom.Gauge("overrides_unused", "Live overrides that are not in force on this node, because it does not have the rule or not enough memory.",
		func(s *overrides.Stats) float64 { return float64(s.Unused) }),
	prom.Gauge("overrides_ignored_records", "Records in the store that are not live overrides, or too large.",
		func(s *overrides.Stats) float64 { return float64(s.Ignored) }),
	prom.Gauge("overrides_bytes", "Memory that live overrides use, at most an eighth of memory.", func(s *overrides.Stats) float64 { return float64(s.Bytes) }),
	prom.Gauge("overrides_poll_age_seconds", "Time since live overrides were last read from the store.",
		func(s *overrides.Stats) float64 { return s.Age.Seconds() }),
	prom.Counter("overrides_errors_total", "Failures to read live overrides from the store, or to change them there.", func(s *overrides.Stats) uint64 { return s.Errors }),
	prom.Counter("overrides_applied_total", "Times that a set of live overrides was applied.", func(s *overrides.Stats) uint64 { return s.Applied }),
}
