package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/ban/nft"
)

const bansByIP = "rules: [{name: a, rate: 100/s, ban: {after: 5, for: 9s}}]\n"

func TestKernelSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Kernel{
		"kernel: {}\n": {Config: nft.Config{Table: "fastlimit", Max: 65536}},
		"kernel: {table: edge_2.x, max_bans: 1048576, mode: shadow}\n": {Config: nft.Config{Table: "edge_2.x", Max: 1 << 20}, Shadow: true},
		"kernel: {max_bans: 1, mode: enforce}\n":                       {Config: nft.Config{Table: "fastlimit", Max: 1}},
	} {
		c := mustParse(t, text+bansByIP)
		if c.Kernel == nil || !reflect.DeepEqual(*c.Kernel, want) {
			t.Errorf("%s: %+v, want %+v", text, c.Kernel, want)
		}
	}
	if c := mustParse(t, bansByIP); c.Kernel != nil {
		t.Errorf("without the setting: %+v", c.Kernel)
	}
	for text, want := range map[string]string{
		"kernel: {table: 'a b'}\n":            `f.yaml:1:17: kernel.table: "a b" is not a name of at most 64 letters, digits, dots and underscores that begins with a letter; write for example fastlimit`,
		"kernel: {table: 2ban}\n":             `f.yaml:1:17: kernel.table: "2ban" is not a name`,
		"kernel: {table: a-b}\n":              `f.yaml:1:17: kernel.table: "a-b" is not a name`,
		"kernel: {table: ''}\n":               `f.yaml:1:17: kernel.table: is empty`,
		"kernel: {max_bans: 0}\n":             `f.yaml:1:20: kernel.max_bans: 0 is too small; want at least 1`,
		"kernel: {max_bans: 2000000}\n":       `f.yaml:1:20: kernel.max_bans: 2000000 is out of range; want 1 to 1048576`,
		"kernel: {mode: drop}\n":              `f.yaml:1:16: kernel.mode: "drop" is not a known value; write enforce or shadow`,
		"kernel: true\n":                      `f.yaml:1:9: kernel: found true; want settings, such as {table: fastlimit`,
		"listen: 'unix:/run/s'\nkernel: {}\n": `f.yaml:2:9: kernel: is for clients that connect by TCP, and listen has no port; remove it`,
	} {
		_, err := Parse("f.yaml", []byte(text+bansByIP), noEnv)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// Not parallel: it says which system this is.
func TestKernelWarnings(t *testing.T) {
	defer func(was string) { system = was }(system)
	const cluster = "cluster: {name: e, bind: '127.0.0.1:7946', secret: 0123456789abcdef, accept_bans: true}\nredis: {url: 'redis://127.0.0.1'}\n"
	const byHeader = "rules: [{name: a, key: 'header:X-Key', rate: 100/s, ban: {after: 5, for: 9s}}, {name: b, rate: 100/s}]"
	const free = "rules: [{name: a, rate: 100/s}]"
	for _, tt := range []struct{ system, text, want string }{
		{"linux", "kernel: {}\n" + bansByIP, ""},
		{"linux", "kernel: {}\nrules: [{name: a, key: ip/24/48, rate: 100/s, ban: {after: 5, for: 9s}}]", ""},
		{"linux", "kernel: {}\n" + free, "kernel: no rule has a ban, so the kernel gets only bans by operators; add ban to a rule, or remove it"},
		{"linux", "kernel: {}\n" + byHeader, "kernel: the kernel bans addresses, but no rule whose key is ip alone has a ban; add ban to such a rule, or remove kernel"},
		{"linux", byHeader, ""},
		{"linux", cluster + bansByIP, ""},
		{"linux", cluster + free, "cluster.accept_bans: no rule has a ban, so no ban of another node applies here; add ban to a rule, or remove it"},
		{"plan9", bansByIP, ""},
		{"plan9", "kernel: {}\n" + bansByIP, "kernel: needs Linux with nftables, and this is plan9, where serve exits with an error; remove it"},
	} {
		system = tt.system
		c := mustParse(t, tt.text)
		all := Warnings(c, plan(t, c))
		if tt.want == "" && len(all) > 0 || tt.want != "" && (len(all) != 1 || all[0] != tt.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.text, all, tt.want)
		}
	}
}

func TestKernelDescribed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"kernel: {table: t, max_bans: 1024}\n":               "\nkernel: up to 1024 bans of peers at a time in the nftables table inet t, 320 KiB on top of memory\n",
		"kernel: {table: t, max_bans: 1024, mode: shadow}\n": "table inet t, 320 KiB on top of memory; mode: shadow, so none of them is sent to it\n",
	} {
		c := mustParse(t, text+bansByIP)
		if got := Describe(c, plan(t, c)); !strings.Contains(got, want) {
			t.Errorf("%s: %q is missing in\n%s", text, want, got)
		}
	}
}
