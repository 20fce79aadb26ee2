package config

import (
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// vainWarnings are about settings of a rule that can do nothing.
func vainWarnings(spec *policy.RuleSpec, warn warnFunc) {
	if what := spec.Match.Covered(); what != "" {
		warn("match.not: its %s covers all that match selects: the rule applies to no request; narrow it, or remove the rule", what)
	}
	// How long a full bucket takes to have room for one more request.
	limit := &spec.Limit
	cost := float64(max(1, limit.Cost))
	if limit.Thousandths {
		cost /= 1000
	}
	if next := time.Duration(cost / limit.Rate.PerSecond() * float64(time.Second)); limit.MaxWait > 0 && limit.MaxWait < next/10 && !limit.Algorithm.Periodic() {
		warn("max_wait: %s is far below the %s that the next place of a full bucket takes: hardly any request waits; raise it, or remove it", shortTime(limit.MaxWait), shortTime(next))
	}
	for _, from := range [...]struct{ setting, header, what string }{{"cost_from", spec.CostFrom.Header, "cost"}, {"rate_from", spec.RateFrom.Header, "rate"}} {
		switch {
		case from.header == "Host":
			warn("%s: Host is the name of a site, and never a %s; name a header that your proxy sets", from.setting, from.what)
		case slices.Contains([]string{"Content-Length", "Content-Type", "User-Agent"}, from.header):
			warn("%s: %s is the client's own, also behind a proxy; name a header that your proxy sets", from.setting, from.header)
		}
	}
}
