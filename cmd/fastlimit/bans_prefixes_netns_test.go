//go:build linux && netns

package main

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/netns"
)

// An attacker has a /48, and uses each of its 65,536 networks too rarely for a limit of theirs;
// another has the addresses of 256 /24s. Where these prefixes are clients too, they are
// banned and dropped, and neighbours outside of them are not; else nothing stops
// them.
func TestNetnsPrefixes(t *testing.T) {
	netns.Run(t, func() {
		w := netns.New(t)
		for rule, stopped := range map[string]bool{
			banAfter5: false,
			", ban: {after: 5, within: 10s, for: 1m, prefixes: {v4: [24], v6: [48], members: 2}}": true,
		} {
			b := siegeIn(t, w, rule, inKernel)
			neighbours := []*netns.Running{polite(), from(netns.Sources(netip.MustParsePrefix("fd80:1::/32"), 48, 20), 10).Start()}
			load := from
			if stopped {
				load = attack
			}
			var floods []*netns.Running
			for _, l := range []netns.Load{
				load(netns.Sources(netip.MustParsePrefix("fd80::/48"), 64, 1<<16), 400),
				load(netns.Sources(netip.MustParsePrefix("10.128.0.0/16"), 32, 1<<16), 2000),
			} {
				l.Conns = 500
				rand.New(rand.NewPCG(1, 1)).Shuffle(len(l.Sources), func(i, j int) { l.Sources[i], l.Sources[j] = l.Sources[j], l.Sources[i] })
				floods = append(floods, l.Start())
			}
			if stopped {
				b.dropped(floods)
			}
			for i, c := range inASecond(floods) {
				if stopped && c.Lost != c.Sent || !stopped && c.Served != c.Sent || c.Sent == 0 {
					t.Errorf("%s: flood: %+v", rule, c)
				}
				floods[i].Stop()
			}
			for _, r := range neighbours {
				if c := r.Stop(); c.Served != c.Sent || c.Sent == 0 {
					t.Errorf("%s: neighbours: %+v", rule, c)
				}
			}
			b.signal(15)
			b.wait()
		}
	})
}
