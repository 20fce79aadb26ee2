package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/limit"
)

const maxMemory = 1 << 40 // more is a slip of the unit

// memory is a size that this machine has. Package fastlimit knows what the rules
// need of it.
func memory() value {
	v := byteSize(limit.MinMemory, maxMemory, "64MiB", "64MiB, 512KiB, 1GiB, 64MB or a number of bytes", "")
	readSize := v.read
	v.read = func(d *decoder, n *node, to reflect.Value) bool {
		ok := readSize(d, n, to)
		if has := d.machine.memory; ok && has > 0 && to.Int() > has {
			text, _, _ := d.expand(n, n.text) // as readSize has done without an error
			d.fail(n, text+" is more than this machine has or this process may use", "want at most "+size(has))
			return false
		}
		return ok
	}
	return v
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

// describeMemory says what memory is used for, and for how long clients are remembered.
func describeMemory(b *strings.Builder, c *Config, p *fastlimit.Plan) {
	fmt.Fprintf(b, "memory %s, of which %s used\n", size(c.Limits.Memory), size(p.Memory))
	if p.Window > 0 {
		filter := p.Memory // less what the rules take
		for i := range p.Rules {
			filter -= p.Rules[i].Bytes + overrideBytes(&c.Policy.Rules[i], &p.Rules[i])
		}
		fmt.Fprintf(b, "first-seen filter %s: remembers %s clients for %s\n", size(filter), count(float64(p.Clients)), roughly(p.Window))
	} else {
		b.WriteString("first-seen filter: none, no rule can use it\n")
	}
}
