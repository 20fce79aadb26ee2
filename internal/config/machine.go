package config

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// machine is what is known of the machine that reads the file. The zero value knows
// nothing, so checks against it are skipped: a file can be parsed anywhere.
type machine struct {
	readFile func(path string) ([]byte, error) // nil: files are not read
	resolve  resolver
	memory   int64 // bytes; 0 is unknown
}

func thisMachine() machine {
	readFile := func(path string) ([]byte, error) {
		data, e := read(path)
		if e != nil {
			return nil, errors.New(e.Problem) // whoever asks for the file names it
		}
		return data, nil
	}
	return machine{readFile: readFile, resolve: systemResolver, memory: memoryLimit(os.ReadFile)}
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
