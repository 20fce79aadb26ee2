package limit

import (
	"time"
)

func rule(name string, n uint64, per time.Duration, burst uint64) RuleConfig {
	return RuleConfig{Name: name, Rate: Rate{N: n, Per: per}, Burst: burst}
}

func withTheta(c RuleConfig, theta float64) RuleConfig { c.EscalateAt = &theta; return c }

func withAlgorithm(c RuleConfig, a Algorithm) RuleConfig { c.Algorithm = a; return c }

func withBan(c RuleConfig, p BanPolicy) RuleConfig { c.Ban = p; return c }

func withStrict(c RuleConfig) RuleConfig { c.Strict = true; return c }

// windowRule counts n units in each period.
func windowRule(name string, n uint64, per time.Duration) RuleConfig {
	return RuleConfig{Name: name, Rate: Rate{N: n, Per: per}, Algorithm: FixedWindow}
}

// slidingRule and logRule count n units in sliding periods.
func slidingRule(name string, n uint64, per time.Duration) RuleConfig {
	return withAlgorithm(windowRule(name, n, per), SlidingWindow)
}

func logRule(name string, n uint64, per time.Duration) RuleConfig {
	return withAlgorithm(windowRule(name, n, per), SlidingLog)
}

func withMaxRate(c RuleConfig, most Rate) RuleConfig { c.MaxRate = most; return c }

func perSec(n uint64) Rate { return Rate{N: n, Per: time.Second} }

func withTiers(c RuleConfig, tiers ...Tier) RuleConfig { c.Tiers = tiers; return c }

// waitRule is strict, so that each request is decided by the bucket.
func waitRule(name string, n, burst uint64, most time.Duration) RuleConfig {
	return RuleConfig{Name: name, Rate: Rate{n, time.Second}, Burst: burst, MaxWait: most, Strict: true}
}
