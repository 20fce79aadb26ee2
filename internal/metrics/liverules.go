package metrics

import (
	"time"

	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/prometheus/client_golang/prometheus"
)

// LiveRules returns a collector of rules that operators have changed for a while, with the time left.
func LiveRules(ends func() map[string]time.Duration) prometheus.Collector {
	return prom.Collector(ends, liveRuleMetrics)
}

var liveRuleMetrics = []prom.Metric[map[string]time.Duration]{
	prom.Gauges("live_rule_seconds", "Time until a rule that an operator has changed is as in the file again; 0 if it is not changed.", []string{"rule"},
		func(ends *map[string]time.Duration, set func(float64, ...string)) {
			for rule, left := range *ends {
				set(left.Seconds(), rule)
			}
		}),
}
