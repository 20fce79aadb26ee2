package fastlimit

import (
	"strconv"
	"strings"
)

// thousandths is in how many parts costs count with [RuleConfig].Thousandths.
const thousandths = 1000

// CostScale is the cost of one unit: 1, or 1000 with Thousandths.
func (c *RuleConfig) CostScale() uint64 {
	if c.Thousandths {
		return thousandths
	}
	return 1
}

// FormatCost writes a cost of the rule's in units: 1500 with Thousandths as "1.5".
func (c *RuleConfig) FormatCost(cost uint64) string {
	text := strconv.FormatUint(cost/c.CostScale(), 10)
	if rest := cost % c.CostScale(); rest > 0 {
		return text + "." + strings.TrimRight(strconv.FormatUint(thousandths+rest, 10)[1:], "0")
	}
	return text
}

// checkThousandths reports what cannot count in thousandths. A window's words, and those of
// stores, hold whole units; a log would hold a thousand times for each; and the T of a named
// rate is rounded down to a tick, which is too much of a thousandth.
func (c *RuleConfig) checkThousandths(bad *report) {
	switch {
	case !c.Thousandths:
	case c.periodic():
		bad.add(c.Name, "Thousandths", "write a whole cost, or choose LeakyBucket", "a %v counts whole units", c.Algorithm)
	case c.MaxRate != Rate{}:
		bad.add(c.Name, "Thousandths", "remove one of the two", "has no exact meaning beside MaxRate: any rate may be named")
	}
}
