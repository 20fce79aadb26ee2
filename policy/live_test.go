package policy

import (
	"net/netip"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"pgregory.net/rapid"
)

// Of overrides of the settings and live ones the longest prefix decides, of two with the
// same prefix the live one; and the engine before stays as it is.
func TestLongestLiveOverride(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) netip.Prefix {
			addr := netip.AddrFrom4([4]byte{10, byte(rapid.IntRange(0, 1).Draw(t, name)), 0, byte(rapid.IntRange(0, 3).Draw(t, name))})
			p, _ := addr.Prefix(rapid.IntRange(1, 32).Draw(t, name))
			return p
		}
		file, live := map[netip.Prefix]uint64{}, map[netip.Prefix]uint64{}
		s := Settings{Rules: []RuleSpec{{Limit: ruleOf("a", 1), Key: key(byIP)}}}
		for i := range rapid.IntRange(0, 8).Draw(t, "in the file") {
			if p := draw("file"); file[p] == 0 {
				file[p] = uint64(i + 2)
				s.Rules[0].Overrides = append(s.Rules[0].Overrides, Override{Key: []string{p.String()}, Burst: file[p]})
			}
		}
		lim, err := fastlimit.New(fastlimit.Config{Rules: s.Limits()})
		if err != nil {
			t.Fatal(err)
		}
		before, err := New(lim, s)
		if err != nil {
			t.Fatal(err)
		}
		var all []LiveOverride
		for i := range rapid.IntRange(0, 8).Draw(t, "live") {
			p := draw("live")
			if _, twice := live[p]; twice {
				continue
			}
			o := LiveOverride{Key: []string{p.String()}}
			if live[p] = uint64(i + 20); i%3 > 0 { // small; every third is unlimited
				tier, err := (*engine.Rule)(lim.Rules()[0]).NewTier(fastlimit.Tier{Burst: live[p], Clients: 1})
				if err != nil {
					t.Fatal(err)
				}
				o.Tier = (*fastlimit.Rule)(tier)
			} else {
				live[p] = 0
			}
			all = append(all, o)
		}
		e, err := before.WithLive(&s, all)
		if err != nil {
			t.Fatal(err)
		}
		client := netip.AddrFrom4([4]byte{10, byte(rapid.IntRange(0, 1).Draw(t, "b")), 0, byte(rapid.IntRange(0, 3).Draw(t, "d"))})
		want := func(sets ...map[netip.Prefix]uint64) uint64 {
			longest, burst := -1, uint64(1)
			for _, set := range sets {
				for p, b := range set {
					if p.Contains(client) && p.Bits() >= longest {
						longest, burst = p.Bits(), b
					}
				}
			}
			return burst
		}
		got := func(e *Engine) uint64 {
			limit, _, free, err := e.LimitFromText(lim.Rules()[0], []string{client.String()})
			if err != nil {
				t.Fatal(err)
			}
			if free {
				return 0
			}
			return limit.Config().Burst
		}
		if got(e) != want(file, live) || got(before) != want(file) {
			t.Fatalf("%v: %d and %d, want %d and %d: %v, %v", client, got(e), got(before), want(file, live), want(file), file, live)
		}
		if none, err := e.WithLive(&s, nil); err != nil || got(none) != want(file) {
			t.Fatalf("without live ones: %v", err)
		}
	})
}
