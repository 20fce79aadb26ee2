package metrics

import (
	"time"

	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/prometheus/client_golang/prometheus"
)

// ReloadStats are the results of reading the configuration again.
type ReloadStats struct {
	Successes, Failures uint64
	Failed              bool      // the last time
	Last                time.Time // of the last success, the start included
}

// Reloads returns a collector of reloads.
func Reloads(stats func() ReloadStats) prometheus.Collector {
	return prom.Collector(stats, reloadMetrics)
}

var reloadMetrics = []prom.Metric[ReloadStats]{
	prom.Gauge("config_last_reload_success", "1 if the start or the last reload read the configuration and applied it, 0 if that reload failed.", func(s *ReloadStats) float64 {
		return oneIf(!s.Failed)
	}),
	prom.Gauge("config_last_reload_success_timestamp_seconds", "When the configuration in force was read, in seconds since 1970.", func(s *ReloadStats) float64 {
		return float64(s.Last.UnixMilli()) / 1000
	}),
	prom.Counters("config_reloads_total", "Reloads by result: ok, failed.", []string{"result"}, func(s *ReloadStats, add func(uint64, ...string)) {
		add(s.Successes, "ok")
		add(s.Failures, "failed")
	}),
}
