package config

import (
	"errors"
	"io/fs"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit"
)

// machine is what is known of the machine that reads the file. The zero value knows
// nothing, so checks against it are skipped: a file can be parsed anywhere.
type machine struct {
	readFile func(path string) ([]byte, error) // nil: files are not read
	mode     func(path string) fs.FileMode     // 0: not known; beside readFile
	resolve  resolver

	appendable func(path string) error // nil: not checked

	replaceable func(path string) error // nil: not checked; beside mode
	memory      int64                   // bytes; 0 is unknown
}

// thisMachine is what Load checks against. A file for another machine, such as one that
// is validated in CI, may be refused for its memory or its files: validate it there.
func thisMachine() machine {
	mode := func(path string) fs.FileMode {
		info, err := os.Stat(path)
		if err != nil || runtime.GOOS == "windows" { // where it tells nothing
			return 0
		}
		return info.Mode()
	}
	return machine{readFile: readNamed, mode: mode, resolve: systemResolver, appendable: appendable, replaceable: replaceable, memory: memoryLimit(os.ReadFile)}
}

// readNamed reads a file that a setting names.
func readNamed(path string) ([]byte, error) {
	data, e := read(path, maxNamed)
	switch {
	case e != nil:
		return nil, errors.New(e.Problem) // whoever asks for the file names it
	case len(data) > maxNamed:
		return nil, errors.New("is larger than " + compactSize(maxNamed))
	}
	return data, nil
}

// memoryLimit is how much memory this process may use, in bytes: that of the machine,
// or of its control group (v2 or v1) if that is less. 0 means unknown, as on systems
// other than Linux.
func memoryLimit(read func(string) ([]byte, error)) int64 {
	least := int64(0)
	add := func(text string, unit int64) {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err == nil && n > 0 && n < 1<<60/unit && (least == 0 || n*unit < least) { // cgroup v1 writes a huge number for "no limit"
			least = n * unit
		}
	}
	if b, err := read("/proc/meminfo"); err == nil {
		_, total, _ := strings.Cut(string(b), "MemTotal:")
		total, _, _ = strings.Cut(total, " kB")
		add(total, 1024)
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if b, err := read(path); err == nil {
			add(string(b), 1)
		}
	}
	return least
}

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

// leastTopTalkers is the shortest list worth showing, a matter of taste; below it there
// is none.
const leastTopTalkers = 16

// talkerBytes is the memory that tracking so many top talkers of each rule takes. It asks
// package fastlimit instead of knowing the size of a slot.
func talkerBytes(rules, talkers int) int64 {
	const unit = 4 // the plan rounds up to multiples of it
	return (fastlimit.LeastMemory(rules, unit) - fastlimit.LeastMemory(rules, 0)) / unit * int64(talkers)
}
