package config

import (
	"net/netip"
	"strings"
	"testing"
)

// What the machine lacks is an error at its place in the file.
func TestMachine(t *testing.T) {
	t.Parallel()
	m := machine{memory: 1 << 30, resolve: func(string) (netip.Addr, bool) { return netip.MustParseAddr("192.0.2.1"), true }}
	for text, want := range map[string]string{
		"memory: 2GiB\n" + rule:                                           "f.yaml:1:9: memory: 2GiB is more than this machine has or this process may use; want at most 1 GiB",
		"memory: 1GiB\n" + rule:                                           "",
		"listen: 'a.example:80'\nadmin: 192.0.2.1:80\n" + rule:            "f.yaml:2:8: admin: 192.0.2.1:80 is already used by the listener a.example:80",
		"listen: ['a.example:80', 'b.example:80']\n" + rule:               "f.yaml:1:26: listen[1]: b.example:80 is already used by the listener a.example:80",
		"listen: ['a.example:80', '0.0.0.0:80']\n" + rule:                 "f.yaml:1:26: listen[1]: 0.0.0.0:80 is already used by the listener a.example:80",
		"listen: ['0.0.0.0:80', '[::1]:80', '[2001:db8::1]:80']\n" + rule: "",
	} {
		_, err := parse("f.yaml", []byte(text), noEnv, m)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
