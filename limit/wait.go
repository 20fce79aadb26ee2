package limit

import (
	"cmp"
	"fmt"
	"time"
)

// WaitLimits bounds how many requests wait at a time ([RuleConfig.MaxWait]). A request
// counts once for each rule that makes it wait.
type WaitLimits struct {
	// PerKey is the maximum number of waiters for one client of a rule, at most MaxWaiters.
	// 0 means DefaultWaitersPerKey.
	PerKey int
	// Total is the maximum number of waiters in all rules together, at most MaxWaiters. 0
	// means DefaultWaiters. Each takes less than WaiterBytes.
	Total int
}

// Bounds on waiting.
const (
	DefaultWaitersPerKey = 10
	DefaultWaiters       = 10_000
	MaxWaiters           = 1 << 20

	// WaiterBytes is the most memory that a waiter takes, not counting what its caller
	// holds meanwhile: a goroutine with its stack, and the request itself.
	WaiterBytes = 2 << 10

	// MaxMaxWait is the longest [RuleConfig.MaxWait].
	MaxMaxWait = time.Hour
)

// WithDefaults returns the bounds with their defaults filled in.
func (w WaitLimits) WithDefaults() WaitLimits {
	return WaitLimits{cmp.Or(w.PerKey, DefaultWaitersPerKey), cmp.Or(w.Total, DefaultWaiters)}
}

// checkWait reports a MaxWait that is out of range or that the rule cannot have.
func (c *RuleConfig) checkWait(bad *report) {
	switch {
	case c.MaxWait < 0 || c.MaxWait > MaxMaxWait:
		bad.add(c.Name, "MaxWait", fmt.Sprintf("want 0 to %v", MaxMaxWait), "%v is out of range", c.MaxWait)
	case c.MaxWait > 0 && c.Algorithm.Periodic():
		bad.add(c.Name, "MaxWait", "remove it, or choose LeakyBucket", "%v has no meaning with a %v: all waiting requests would be admitted at once when it has room again", c.MaxWait, c.Algorithm)
	}
}

// check reports what is wrong with the bounds.
func (w WaitLimits) check(bad *report) {
	for _, n := range [...]struct {
		name string
		n    int
	}{{"Wait.PerKey", w.PerKey}, {"Wait.Total", w.Total}} {
		if n.n < 0 || n.n > MaxWaiters {
			bad.add("", n.name, fmt.Sprintf("want 1 to %d, or 0 for the default", MaxWaiters), "%d is out of range", n.n)
		}
	}
}
