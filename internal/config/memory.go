package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit"
)

// memory is a size that this machine has. Package fastlimit knows what the rules
// need of it.
func memory() value {
	return bytesWithin(fastlimit.MinMemory, maxMemory, "64MiB", "64MiB, 512KiB, 1GiB, 64MB or a number of bytes", "", func(d *decoder, n *node, text string, v int64) bool {
		if d.machine.memory > 0 && v > d.machine.memory {
			d.fail(n, text+" is more than this machine has, or than this process may use", "want at most "+size(d.machine.memory))
			return false
		}
		return true
	})
}

// compactSize is a multiple of 1 KiB as a file has it.
func compactSize(n int64) string {
	for shift, unit := range []string{"TiB", "GiB", "MiB"} {
		if bits := 40 - 10*shift; n >= 1<<bits && n%(1<<bits) == 0 {
			return fmt.Sprintf("%d%s", n>>bits, unit)
		}
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

// fittingTopTalkers takes at most a sixteenth of memory, and nothing that the
// limits need.
func fittingTopTalkers(memory int64, rules int) int {
	spare := min(memory/16, memory-fastlimit.LeastMemory(rules, 0))
	fit := spare / talkerBytes(max(rules, 1), 1) / 4 * 4
	if fit < leastTopTalkers {
		return 0
	}
	return int(min(fit, defaultTopTalkers))
}

// leastTopTalkers is what is worth showing.
const leastTopTalkers = 16

// talkerBytes is what so many top talkers of each rule take.
func talkerBytes(rules, talkers int) int64 {
	const unit = 4 // to which the plan rounds up
	return (fastlimit.LeastMemory(rules, unit) - fastlimit.LeastMemory(rules, 0)) / unit * int64(talkers)
}
