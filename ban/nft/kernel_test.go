//go:build linux && netns

package nft

import (
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/ban/feed"
)

func TestSmoke(t *testing.T) {
	for _, ownless := range []bool{false, true} {
		w, err := New(Config{Ports: []uint16{8080, 443}, Max: 100})
		if err != nil {
			t.Fatal(err)
		}
		w.ownless = ownless
		if err := w.Open(); err != nil {
			t.Fatal(err)
		}
		ch := []feed.Change{
			{Prefix: netip.MustParsePrefix("192.0.2.1/32"), For: time.Hour},
			{Prefix: netip.MustParsePrefix("192.0.2.0/24"), For: time.Hour},
			{Prefix: netip.MustParsePrefix("2001:db8::/64"), For: time.Hour},
		}
		if err := w.Apply(ch); err != nil {
			t.Fatal(err)
		}
		if err := w.Apply(ch); err != nil {
			t.Fatal(err)
		}
		t.Log(mustTool(t, "list", "ruleset"))
		t.Log(w.Counters())
		t.Log(tool(t, "flush", "ruleset"))
		t.Log(w.Counters())
		t.Log(w.Close())
		t.Log(mustTool(t, "list", "ruleset"))
	}
}
