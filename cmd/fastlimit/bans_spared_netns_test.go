//go:build linux && netns

package main

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/netns"
)

// Who must not be dropped, whatever it sends: an allowed prefix, a trusted proxy, a proxy that is not
// trusted, with many clients behind it, a translator, and the gateway. All floods but the allowed one are
// answered 429.
func TestNetnsSpared(t *testing.T) {
	netns.Run(t, func() {
		b := besiege(t, banAfter5, inKernel+"allow: [10.129.0.0/16, \"fd80:1::/32\"]\ntrusted_proxies: [10.130.0.0/16, \"fd80:2::/32\"]\n")
		const named = "X-Forwarded-For: 192.0.2.1\r\n"
		var all []*netns.Running
		for _, c := range []struct{ source, header string }{
			{"10.129.0.1", ""},
			{"fd80:1::1", ""},
			{"10.130.0.1", named},
			{"fd80:2::1", named},
			{"10.131.0.1", named},
			{"fd80:3::1", named},
			{"10.132.0.1", "Forwarded: for=192.0.2.1\r\n"},
			{"64:ff9b::192.0.2.7", ""},
			{netns.Gateway4, ""},
			{netns.Gateway6, ""},
		} {
			l := from([]netip.Addr{netip.MustParseAddr(c.source)}, 50)
			l.Header, l.KeepAlive = c.header, len(all)%2 == 0
			r := l.Start()
			defer r.Stop()
			all = append(all, r)
		}
		b.offend() // by now bans reach the kernel
		time.Sleep(time.Second)
		for _, r := range all {
			c := r.Stop()
			if c.Lost > 0 || c.Sent < 25 {
				t.Errorf("%v %q: %+v", r.Sources, r.Header, c)
			}
			if allowed := r.Sources[0].String(); (c.Denied > 0) == (allowed == "10.129.0.1" || allowed == "fd80:1::1") {
				t.Errorf("%v %q: %+v", r.Sources, r.Header, c)
			}
		}
		table := b.table()
		if !b.holds(key4, key6) || strings.Contains(table, "10.13") || strings.Contains(table, "64:") || strings.Contains(table, "192.0.2.7") || strings.Contains(table, "fd80:") && !strings.Contains(table, "fd80::") {
			t.Errorf("the table: %s", table)
		}
	})
}

// Shadow: nobody is dropped. By the kernel's mode, those who are banned get 429 on; by the
// rule's, everybody is served.
func TestNetnsShadow(t *testing.T) {
	netns.Run(t, func() {
		w := netns.New(t)
		for _, c := range []struct {
			rule, kernel string
			denied       bool
		}{
			{banAfter5, "kernel: {table: fastlimit, mode: shadow}\n", true},
			{banAfter5 + ", mode: shadow", inKernel, false},
		} {
			b := siegeIn(t, w, c.rule, c.kernel)
			for _, source := range []netip.Addr{source4, source6} {
				r := from([]netip.Addr{source}, 400).Start()
				testkit.Eventually(t, "banned long ago", func() bool { return r.Counts().Sent > 100 })
				if n := r.Stop(); n.Lost > 0 || (n.Denied > 0) != c.denied {
					t.Errorf("%v with %s%s: %+v", source, c.rule, c.kernel, n)
				}
			}
			b.signal(15)
			b.wait()
		}
	})
}
