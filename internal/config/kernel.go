package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/ban/nft"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
)

// Kernel is where bans are enforced besides. Listens are for the caller to fill in, who
// listens on them.
type Kernel struct {
	nft.Config

	Shadow bool // count what the kernel would be told, and tell it nothing
}

const kernelExample = "kernel: {table: fastlimit, max_bans: 65536, mode: enforce}"

// kernelSettings fills Kernel.
var kernelSettings = section{
	name: "kernel", want: "settings, such as " + kernelExample[len("kernel: "):], where: "in kernel, indented more than kernel",
	settings: []setting{
		{name: "table", field: "Table", value: text("name", "the name of a table such as "+nft.DefaultTable), def: nft.DefaultTable, doc: "name of the nftables table, which no other process may use"},
		{name: "max_bans", field: "Max", value: whole(number{least: 1, most: feed.MostBans, example: "65536"}), def: strconv.Itoa(feed.DefaultMax), doc: "the most prefixes that the kernel bans at a time"},
		{name: "mode", field: "Shadow", value: shadowMode(), def: "enforce", doc: "whether the kernel drops packets, or fastlimit only counts what it would send"},
	},
}

// shadowMode is a mode as rules have it, for a bool.
func shadowMode() value {
	v := choice("enforce", "shadow")
	read := v.read
	v.read = func(d *decoder, n *node, to reflect.Value) bool {
		var mode fastlimit.Mode
		ok := read(d, n, reflect.ValueOf(&mode).Elem())
		to.SetBool(mode == fastlimit.Shadow)
		return ok
	}
	return v
}

// checkKernel has package nft check what is there, and reports bans that would drop nothing.
func (d *decoder) checkKernel() {
	k := d.cfg.Kernel
	if k == nil {
		return
	}
	c := k.Config
	c.Listens = []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), 1)} // which are not known yet
	d.report("Kernel", c.Validate())
	listen := d.cfg.Server.Listeners
	onTCP := func(l server.Listener) bool { return !strings.HasPrefix(l.Address, "unix:") }
	if len(listen) > 0 && !slices.ContainsFunc(listen, onTCP) && !d.place("Server.Listeners").failed {
		d.fail(d.place("Kernel"), "is for clients that connect by TCP, and listen has no port", "remove it")
	}
}

// bansByAddress reports whether the clients that a rule bans are peers, if no header names them.
func bansByAddress(spec *policy.RuleSpec) bool {
	return spec.Limit.Ban.Enabled() && len(spec.Key) == 1 && spec.Key[0].Kind == policy.KeyIP
}

// kernelWarnings are about a kernel that gets nothing to drop.
func kernelWarnings(c *Config, warn warnFunc) {
	if c.Kernel == nil {
		return
	}
	switch {
	case !c.anyRule(bans):
		warn("kernel: no rule has a ban, so the kernel gets only bans by operators; add ban to a rule, or remove it")
	case !c.anyRule(bansByAddress):
		warn("kernel: the kernel bans addresses, but no rule whose key is ip alone has a ban; add ban to such a rule, or remove kernel")
	}
	if system != "linux" {
		warn("kernel: needs Linux with nftables, and this is %s, where serve exits with an error; remove it", system)
	}
}

// system is a variable for tests.
var system = runtime.GOOS

// describeKernel says where bans go besides, and what is needed for that.
func describeKernel(b *strings.Builder, c *Config) {
	k := c.Kernel
	if k == nil {
		return
	}
	fmt.Fprintf(b, "kernel: up to %d bans of peers at a time in the nftables table inet %s, %s on top of memory", k.Max, k.Table, size(c.KernelMemory()))
	if k.Shadow {
		b.WriteString("; mode: shadow, so none of them is sent to it")
	}
	b.WriteByte('\n')
}

// feedBytes is what package feed takes for each ban, and each that it is to remove.
const feedBytes = 160

// KernelMemory is how much memory the bans that the kernel is told of may take here.
func (c *Config) KernelMemory() int64 {
	if c.Kernel == nil {
		return 0
	}
	return 2 * int64(c.Kernel.Max) * feedBytes
}
