package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit"
)

// maxMemory stands for a slip of the unit.
const maxMemory = 1 << 40

// What package fastlimit asks for each rule, and for each of its top talkers
// (TestMemoryOfThePlan).
const (
	minRuleMemory = 256 << 10
	talkerMemory  = 116
)

// minMemory is the least memory for so many rules.
func minMemory(rules int) int64 { return max(fastlimit.MinMemory, minRuleMemory*int64(max(rules, 1))) }

// memory reads the size once the number of rules is known, as each needs some.
func (d *decoder) memory(n node, rules int) {
	const want = "a size such as 64MiB"
	s, ok := d.scalar(n, want)
	if !ok {
		return
	}
	v, ok := parseSize(s.text)
	switch least := minMemory(rules); {
	case !ok:
		d.fail(n, quote(s.text)+" is not a size", "write for example 64MiB, 512KiB, 1GiB, 64MB or a number of bytes")
	case v < least:
		d.fail(n, s.text+" is too small", fmt.Sprintf("want at least %s for %s", compactSize(least), plural(rules, "rule")))
	case v > maxMemory:
		d.fail(n, s.text+" is too large", "want at most 1TiB")
	case d.machine.memory > 0 && v > d.machine.memory:
		d.fail(n, s.text+" is more than this machine has, or than this process may use", "want at most "+size(d.machine.memory))
	default:
		d.cfg.Memory = v
	}
}

// compactSize is a multiple of 1 KiB as a file has it.
func compactSize(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%dMiB", n>>20)
	}
	return fmt.Sprintf("%dKiB", n>>10)
}

func plural(n int, what string) string {
	if n = max(n, 1); n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// parseSize reads bytes with a binary (KiB) or decimal (KB) unit.
func parseSize(s string) (int64, bool) {
	digits := strings.TrimRight(s, "BKMGTikbmgt ")
	unit, ok := map[string]float64{
		"": 1, "B": 1,
		"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}[strings.TrimPrefix(s[len(digits):], " ")]
	n, err := strconv.ParseUint(digits, 10, 53)
	if !ok || err != nil {
		return 0, false
	}
	return int64(min(float64(n)*unit, math.MaxInt64/2)), true
}

// topTalkers reads how many clients of each rule are tracked individually
// without a cluster, and checks that there is memory for them, and for those
// of a cluster.
func (d *decoder) topTalkers(n, cluster *node) {
	rules := len(d.cfg.Policy.Rules)
	switch {
	case n == nil && cluster == nil:
		d.cfg.TopTalkers = defaultTopTalkers(d.cfg.Memory, rules)
		return
	case n == nil:
		n = cluster
	case cluster != nil:
		d.fail(*n, "is for a node without cluster", "write it in cluster")
		return
	default:
		d.topTalkersOrNone(*n)
	}
	// Rules that are known to be good, so that an error is about the memory.
	c := d.cfg.tier()
	c.Rules = probes(rules)
	if _, err := fastlimit.NewPlan(c); err != nil && len(d.errs) == 0 {
		least := minMemory(rules) + int64(c.TopTalkers+3)/4*4*talkerMemory*int64(max(rules, 1))
		d.fail(*n, fmt.Sprintf("%d clients of each rule do not fit memory %s", c.TopTalkers, compactSize(c.Memory)),
			fmt.Sprintf("lower top_talkers, or raise memory to %s or more", compactSize((least+1023)&^1023)))
	}
}

// topTalkersOrNone reads a number of which 0 turns it off.
func (d *decoder) topTalkersOrNone(n node) {
	const want = "a whole number such as 1024"
	s, ok := d.scalar(n, want)
	if !ok || s.number() && s.text == "0" {
		return
	}
	v, ok := d.whole(n, "1024")
	switch {
	case !ok:
	case v < 4 || v > fastlimit.MaxTopTalkers:
		d.fail(n, fmt.Sprintf("%d is out of range", v), fmt.Sprintf("want 4 to %d, or 0 for none", fastlimit.MaxTopTalkers))
	default:
		d.cfg.TopTalkers = int(v)
	}
}

// defaultTopTalkers takes at most a sixteenth of memory, and nothing that the
// limits need.
func defaultTopTalkers(memory int64, rules int) int {
	spare := min(memory/16, memory-minMemory(rules))
	fit := spare / int64(talkerMemory*max(rules, 1)) / 4 * 4
	if fit < leastTopTalkers {
		return 0
	}
	return int(min(fit, DefaultTopTalkers))
}

// leastTopTalkers is what is worth showing.
const leastTopTalkers = 16

// probes are good rules, at least one.
func probes(n int) []fastlimit.RuleConfig {
	all := make([]fastlimit.RuleConfig, max(n, 1))
	for i := range all {
		all[i] = probe
		all[i].Name = strconv.Itoa(i)
	}
	return all
}
