package config

import (
	"fmt"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/limit"
)

const defaultTopTalkers = 1024 // without a cluster; fewer where memory is small

// leastTopTalkers is the shortest list worth showing, a matter of taste; below it there
// is none.
const leastTopTalkers = 16

// checkTalkers fills in the default of top_talkers for a node without cluster, and
// refuses the setting beside one: with two places to set it, one would be without effect.
func (d *decoder) checkTalkers() {
	n, alone := d.places["Limits.TopTalkers"], d.cfg.Cluster == nil
	switch {
	case n != nil && !alone:
		d.fail(n, "is for nodes without a cluster", "write it in cluster")
	case n == nil && alone:
		d.cfg.Limits.TopTalkers = defaultTalkers(d.cfg.Limits.Memory, len(d.cfg.Policy.Expanded().Rules))
	}
}

// defaultTalkers is the default of top_talkers without a cluster: as many as fit
// in a sixteenth of memory, without taking any from the limits.
func defaultTalkers(memory int64, rules int) int {
	spare := min(memory/16, memory-limit.LeastMemory(rules, 0))
	fit := spare / talkerBytes(max(rules, 1), 1) / 4 * 4
	if fit < leastTopTalkers {
		return 0
	}
	return int(min(fit, defaultTopTalkers))
}

// talkerBytes is the memory that tracking so many top talkers of each rule takes. It asks
// package fastlimit instead of knowing the size of a slot.
func talkerBytes(rules, talkers int) int64 {
	const unit = 4 // the plan rounds up to multiples of it
	return (limit.LeastMemory(rules, unit) - limit.LeastMemory(rules, 0)) / unit * int64(talkers)
}

func describeTalkers(b *strings.Builder, c *Config, p *fastlimit.Plan) {
	if c.Limits.TopTalkers > 0 {
		fmt.Fprintf(b, "top talkers: %d clients of each rule, %s\n", c.Limits.TopTalkers, size(talkerBytes(len(p.Rules), c.Limits.TopTalkers)))
	}
}
