//go:build linux

package netns

import (
	"net/netip"
	"slices"
	"testing"
)

func TestSources(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		within    string
		length, n int
		want      []string // the first ones and the last
	}{
		{"10.128.0.0/9", 32, 1000, []string{"10.128.0.1", "10.128.0.2", "10.128.3.232"}},
		{"10.128.0.0/16", 24, 256, []string{"10.128.0.1", "10.128.1.1", "10.128.255.1"}},
		{"fd80::/48", 64, 1 << 16, []string{"fd80::1", "fd80:0:0:1::1", "fd80:0:0:ffff::1"}},
		{"fd80:1::/32", 48, 1 << 16, []string{"fd80:1::1", "fd80:1:1::1", "fd80:1:ffff::1"}},
		{"fd80::/64", 128, 1000, []string{"fd80::1", "fd80::2", "fd80::3e8"}},
	} {
		all := Sources(netip.MustParsePrefix(c.within), c.length, c.n)
		got := []string{all[0].String(), all[1].String(), all[len(all)-1].String()}
		if len(all) != c.n || !slices.Equal(got, c.want) {
			t.Errorf("%d of %s by %d: %v, want %v", c.n, c.within, c.length, got, c.want)
		}
	}
}
