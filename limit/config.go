package limit

import (
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/bytesize"
	"github.com/fastlimit/fastlimit/sketch"
)

// Config is the part of a fastlimit.Config that a plan depends on. The fields have the same
// meaning as there.
type Config struct {
	// Rules are the limits, in the order in which their buckets are charged.
	// At least one, at most MaxRules.
	Rules []RuleConfig

	// Memory is the number of bytes to share out. 0 means DefaultMemory; at least
	// [LeastMemory].
	Memory int64

	// Reserved is the part of Memory that the caller uses for its own tables.
	Reserved int64

	// Shared says whether there is an exact tier that nodes share.
	Shared bool

	// Runs reports whether that tier runs an algorithm. nil means that it runs all.
	Runs func(Algorithm) bool

	// StoreTimeout is J, the longest that a request waits for the shared tier. 0 means
	// DefaultStoreTimeout.
	StoreTimeout time.Duration

	// TopTalkers is the number of clients of each rule that are tracked individually, of
	// [sketch.TalkerSlotBytes] each. Rounded up to a multiple of four, at most
	// MaxTopTalkers. 0 means none.
	TopTalkers int

	// Nodes is the maximum number of nodes that exchange their top talkers, at most
	// MaxNodes; see [RulePlan.ClusterBound]. 0 means 1: this node is alone.
	Nodes int

	// Wait bounds how many requests of rules with a MaxWait wait at a time. They take up to
	// WaiterBytes each, on top of Memory.
	Wait WaitLimits
}

// Bounds on a configuration.
const (
	DefaultMemory = 64 << 20
	MinMemory     = 1 << 20
	MaxRules      = 256
	MaxNodes      = 10_000

	MaxTopTalkers = 1 << 20

	DefaultStoreTimeout = 5 * time.Millisecond
)

// checkSizes reports numbers that are out of range, and corrects those that later checks
// depend on.
func (c *Config) checkSizes(bad *report) {
	if n := len(c.Rules); n == 0 || n > MaxRules {
		bad.add("", "Rules", fmt.Sprintf("want 1 to %d", MaxRules), "%d rules", n)
	}
	if c.TopTalkers < 0 || c.TopTalkers > MaxTopTalkers {
		bad.add("", "TopTalkers", fmt.Sprintf("want 0 to %d", MaxTopTalkers), "%d is out of range", c.TopTalkers)
		c.TopTalkers = 0
	}
	if c.Nodes < 0 || c.Nodes > MaxNodes {
		bad.add("", "Nodes", fmt.Sprintf("want 0 to %d", MaxNodes), "%d is out of range", c.Nodes)
		c.Nodes = 0
	}
	c.Wait.check(bad)
	switch least := LeastMemory(len(c.Rules), 0); {
	case c.Memory < least:
		bad.add("", "Memory", fmt.Sprintf("want at least %s for %d rules", bytesize.Text(least), len(c.Rules)), "%s is too small", bytesize.Text(c.Memory))
	case c.Memory < LeastMemory(len(c.Rules), c.TopTalkers):
		least = (LeastMemory(len(c.Rules), c.TopTalkers) + 1023) &^ 1023
		bad.add("", "TopTalkers", fmt.Sprintf("lower them, or raise memory to %s or more", bytesize.Text(least)),
			"%d clients of each rule do not fit memory %s", c.TopTalkers, bytesize.Text(c.Memory))
	}
}

// checkShared reports a rule that the shared tier, if there is one, cannot enforce.
func (c *Config) checkShared(rp *RulePlan, bad *report) {
	rc, algorithm := &rp.Config, rp.Shape.Algorithm()
	switch {
	case !c.Shared:
	case c.Runs != nil && !c.Runs(algorithm):
		bad.add("", "Store", "use one that does, or none", "does not run the %v, by which rule %q counts", algorithm, rc.Name)
	case rp.Logged() && !rp.Shape.Portable():
		bad.add(rc.Name, "Rate", fmt.Sprintf("want at most %d, or a sliding window", bucket.MaxPortableLog), "a log of %d units is too long for a shared store", rc.Rate.N)
	case !rp.Shape.Portable():
		bad.add(rc.Name, "Burst", "lower it", "burst %d at %v takes %v to leak: too long to be kept exactly in a shared store",
			rc.Burst, rc.Rate, rp.DrainTime().Round(time.Hour))
	}
}

// LeastMemory returns the least [Config.Memory] for so many rules with so many top talkers
// each.
func LeastMemory(rules, topTalkers int) int64 {
	return max(MinMemory, 2*minRuleBytes*int64(rules)) + slotBytes(talkerSlots(topTalkers), rules)
}

// talkerSlots rounds up to whole sets.
func talkerSlots(n int) int { return (n + 3) / 4 * 4 }

// slotBytes returns the memory that the top talkers of some rules take.
func slotBytes(slots, rules int) int64 {
	return int64(slots) * int64(sketch.TalkerSlotBytes) * int64(rules)
}
