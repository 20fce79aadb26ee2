package metrics

import (
	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/prometheus/client_golang/prometheus"
)

// Bans returns a collector of operators' bans. The server counts bans by rules together with the rules.
func Bans(stats func() bans.Stats) prometheus.Collector { return prom.Collector(stats, banMetrics) }

var banMetrics = []prom.Metric[bans.Stats]{
	prom.Gauge("operator_bans", "Prefixes that operators have banned on this node.", func(s *bans.Stats) float64 { return float64(s.ByOperators) }),
}
