package metrics

import (
	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/prometheus/client_golang/prometheus"
)

// Bans returns a collector of what operators have banned. What rules ban is counted with the
// rules, by the server.
func Bans(stats func() bans.Stats) prometheus.Collector { return prom.Collector(stats, banMetrics) }

var banMetrics = []prom.Metric[bans.Stats]{
	prom.Gauge("operator_bans", "Prefixes that operators have banned on this node.", func(s *bans.Stats) float64 { return float64(s.ByOperators) }),
}
