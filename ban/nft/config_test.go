package nft

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/ban/feed"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config Config
		wrong  string // the field
	}{
		{Config{Listens: ports(80)}, ""},
		{Config{Listens: ports(80, 65535, 80), Table: "fastlimit_2.a", Max: feed.MostBans}, ""},
		{Config{Listens: ports(80), Table: strings.Repeat("a", 64)}, ""},
		{Config{}, "Listens"},
		{Config{Listens: ports(80, 0)}, "Listens"},
		{Config{Listens: ports(80), Table: "2a"}, "Table"},
		{Config{Listens: ports(80), Table: "a b"}, "Table"},
		{Config{Listens: ports(80), Table: "a\x00"}, "Table"},
		{Config{Listens: ports(80), Table: strings.Repeat("a", 65)}, "Table"},
		{Config{Listens: ports(80), Max: -1}, "Max"},
		{Config{Listens: ports(80), Max: feed.MostBans + 1}, "Max"},
	} {
		err := c.config.Validate()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.wrong)
		}
		if _, made := New(c.config); (made == nil) != (err == nil) {
			t.Errorf("%+v: New: %v", c.config, made)
		}
	}
}

// ports are those of all addresses.
func ports(all ...uint16) (listens []netip.AddrPort) {
	for _, p := range all {
		listens = append(listens, netip.AddrPortFrom(netip.IPv6Unspecified(), p))
	}
	return listens
}
