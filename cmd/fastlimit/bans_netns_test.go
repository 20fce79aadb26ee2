//go:build linux && netns

package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/netns"
)

func init() { apart = netns.SendApart }

// besieged is a server with kernel bans in a network of its own. It has no right but
// CAP_NET_ADMIN.
type besieged struct {
	*process
	*netns.World
	t *testing.T
}

// besiege starts one, whose rule has these further settings. more are lines of the file.
func besiege(t *testing.T, rule, more string) *besieged {
	t.Helper()
	return siegeIn(t, netns.New(t), rule, more)
}

// siegeIn starts one in a world that is there.
func siegeIn(t *testing.T, w *netns.World, rule, more string) *besieged {
	t.Helper()
	admin := filepath.Join(testkit.ShortDir(t), "admin.sock")
	if !strings.Contains(more, "listen:") {
		more += "listen: \":8080\"\n"
	}
	file := writeFile(t, "c.yaml", fmt.Sprintf("admin: unix:%s\nrules: [{name: per-ip, key: ip, rate: 1/s, burst: 2, strict: true%s}]\n%s", admin, rule, more))
	return &besieged{start(t, w.Unprivileged(binary, "serve", "-c", file)), w, t}
}

// Settings of most tests.
const (
	banAfter5 = ", ban: {after: 5, within: 10s, for: 1m}"
	inKernel  = "kernel: {table: fastlimit}\n"
)

// at is the server's address for clients of the family of an address.
func at(client netip.Addr) string {
	if client.Is4() {
		return netns.Server4 + ":8080"
	}
	return "[" + netns.Server6 + "]:8080"
}

// from is a load of sources of one family.
func from(sources []netip.Addr, rate float64) netns.Load {
	return netns.Load{Server: at(sources[0]), Sources: sources, Rate: rate}
}

// attack is a load that will be dropped.
func attack(sources []netip.Addr, rate float64) netns.Load {
	l := from(sources, rate)
	l.Patience = netns.Impatience
	return l
}

// figures is the time in which CPU and latency are measured: 400 polite requests.
const figures = 4 * time.Second

// polite are clients that keep to the limit, each request on a connection of its own, and no two
// of one network.
func polite() *netns.Running {
	return from(netns.Sources(netip.MustParsePrefix("10.200.0.0/16"), 24, 200), 100).Start()
}

// inASecond are the counts of the second that begins now.
func inASecond[L interface{ Counts() netns.Counts }](loads []L) (all []netns.Counts) {
	for _, r := range loads {
		all = append(all, r.Counts())
	}
	time.Sleep(time.Second)
	for i, r := range loads {
		all[i] = r.Counts().Since(all[i])
	}
	return all
}

// bans are those that run.
func (b *besieged) bans() (list bans.List) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.ask(b.t, "/v1/bans?limit=10000")), &list); err != nil {
		b.t.Fatal(err)
	}
	return list
}

// cpu is what the server spends for each second of the time from now on.
func (b *besieged) cpu(during time.Duration) float64 {
	b.t.Helper()
	_, _, spent, err := proc.Cost(b.cmd.Process.Pid, func() error { time.Sleep(during); return nil })
	if err != nil {
		b.t.Fatal(err)
	}
	return spent.Seconds() / during.Seconds()
}

// socketless waits until no connection of these peers is left but some that the server had closed
// before their ban, whose ends do not arrive any more, or that never were: the end of a handshake
// was dropped. No process holds either. It returns how many.
func (b *besieged) socketless(t *testing.T, peers ...netip.Prefix) (closed int) {
	t.Helper()
	var left []netns.Socket
	t.Cleanup(func() {
		if len(left) > 0 {
			t.Logf("%d sockets are left: %v", len(left), left[:min(10, len(left))])
		}
	})
	testkit.Eventually(t, fmt.Sprintf("no socket of %v is left", peers), func() bool {
		all := b.Sockets(t, peers...)
		left = slices.DeleteFunc(slices.Clone(all), netns.Socket.Closed)
		closed = len(all) - len(left)
		return len(left) == 0
	})
	return closed
}

// Floods of both families, from one source and from a thousand, over lasting connections and
// over one for each request: all are banned; then they get nothing, none of their
// sockets is left, the server spends what it does when idle, and who is polite is served as
// then.
func TestNetnsFloodsAreBanned(t *testing.T) {
	netns.Run(t, func() {
		w := netns.New(t)
		for i, c := range []struct {
			sources   int
			keepAlive bool
		}{{1, false}, {1, true}, {1000, false}, {1000, true}} {
			prefix4, prefix6 := netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", 128+i)), netip.MustParsePrefix(fmt.Sprintf("fd80:%d::/32", i))
			t.Run(fmt.Sprintf("%d sources, keep-alive %v", c.sources, c.keepAlive), func(t *testing.T) {
				b := siegeIn(t, w, ", ban: {after: 3, within: 10s, for: 1m}", inKernel)
				good := polite()
				defer good.Stop()
				before := good.Counts()
				idle := b.cpu(figures)
				usual := good.Counts().Since(before).Quantile(0.99)

				start := time.Now()
				floods := []*netns.Apart{}
				for _, sources := range [][]netip.Addr{netns.Sources(prefix4, 32, c.sources), netns.Sources(prefix6, 64, c.sources)} {
					l := attack(sources, 2500)
					l.KeepAlive, l.Conns = c.keepAlive, max(100, c.sources)
					floods = append(floods, l.Apart(t))
				}
				testkit.Eventually(t, "all are banned", func() bool { return b.bans().Total == 2*c.sources })
				banned := time.Since(start)
				closed := b.socketless(t, prefix4, prefix6)
				gone := time.Since(start)

				var spent float64
				var p99 time.Duration
				testkit.Eventually(t, "the server is idle", func() bool {
					before := good.Counts()
					spent = b.cpu(figures)
					p99 = good.Counts().Since(before).Quantile(0.99)
					// Of four hundred requests p99 is the fourth: other programs decide about milliseconds.
					return spent <= idle+0.02 && p99 <= 2*max(usual, 20*time.Millisecond)
				})
				for i, c := range inASecond(floods) {
					if c.Lost != c.Sent || c.Sent == 0 {
						t.Errorf("%v and others are banned, and answered: %+v", floods[i].Sources[0], c)
					}
				}
				if c := good.Stop(); c.Served != c.Sent || c.Sent == 0 {
					t.Errorf("polite clients: %d of %d are served; %d denied, %d lost", c.Served, c.Sent, c.Denied, c.Lost)
				}
				t.Logf("all banned after %v, no socket after %v but %d closed before; CPU %.4f s/s, idle %.4f; p99 %v, idle %v", banned.Round(time.Millisecond), gone.Round(time.Millisecond), closed, spent, idle, p99, usual)
				b.signal(15)
				b.wait()
			})
		}
	})
}
