package config

import (
	"reflect"

	"github.com/fastlimit/fastlimit"
)

// memory is a size that this machine has. Package fastlimit knows what the rules
// need of it.
func memory() value {
	v := byteSize(fastlimit.MinMemory, maxMemory, "64MiB", "64MiB, 512KiB, 1GiB, 64MB or a number of bytes", "")
	readSize := v.read
	v.read = func(d *decoder, n *node, to reflect.Value) bool {
		ok := readSize(d, n, to)
		if has := d.machine.memory; ok && has > 0 && to.Int() > has {
			text, _, _ := d.expand(n, n.text) // as readSize has done without an error
			d.fail(n, text+" is more than this machine has, or than this process may use", "want at most "+size(has))
			return false
		}
		return ok
	}
	return v
}

// defaultTalkers is the default of top_talkers without a cluster: as many as fit
// in a sixteenth of memory, without taking any from the limits.
func defaultTalkers(memory int64, rules int) int {
	spare := min(memory/16, memory-fastlimit.LeastMemory(rules, 0))
	fit := spare / talkerBytes(max(rules, 1), 1) / 4 * 4
	if fit < leastTopTalkers {
		return 0
	}
	return int(min(fit, defaultTopTalkers))
}

// leastTopTalkers is the shortest list worth showing; below it there is none.
const leastTopTalkers = 16

// talkerBytes is the memory that tracking so many top talkers of each rule takes.
func talkerBytes(rules, talkers int) int64 {
	const unit = 4 // the plan rounds up to multiples of it
	return (fastlimit.LeastMemory(rules, unit) - fastlimit.LeastMemory(rules, 0)) / unit * int64(talkers)
}
