//go:build linux && netns

package netns_test

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/netns"
)

// TestMain is the server when the test says so: this binary is the only program it has.
func TestMain(m *testing.M) {
	if netns.SendApart() {
		return
	}
	if addr := os.Getenv(serveEnv); addr != "" {
		serve(addr)
		return
	}
	os.Exit(m.Run())
}

const serveEnv = "FASTLIMIT_NETNS_SERVE"

// serve admits the first two requests of a source, and answers 503 to those that say so.
func serve(addr string) {
	var mu sync.Mutex
	seen := map[string]int{}
	_ = http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // until it is killed
		mu.Lock()
		defer mu.Unlock()
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		seen[host]++
		switch {
		case r.Header.Get("Odd") != "":
			w.WriteHeader(http.StatusServiceUnavailable)
		case seen[host] > 2:
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
}

// server runs this binary among the servers, and waits for it.
func server(t *testing.T, w *netns.World) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := w.Unprivileged(self)
	cmd.Env = append(os.Environ(), serveEnv+"=:8080")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // it does not end by itself
	testkit.Eventually(t, "the server listens", func() bool {
		c, err := net.Dial("tcp", netns.Server4+":8080")
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if !strings.Contains(string(status), set+":\t0000000000001000\n") {
			t.Errorf("rights of the server: want CAP_NET_ADMIN alone in %s:\n%s", set, status)
		}
	}
}

// A thousand sources of either family, with a connection for each request and without:
// the server sees each by its own address.
func TestNetnsThousandSources(t *testing.T) {
	netns.Run(t, func() {
		w := netns.New(t)
		server(t, w)
		for _, l := range []netns.Load{
			{Server: netns.Server4 + ":8080", Sources: netns.Sources(netip.MustParsePrefix("10.128.0.0/16"), 32, 1000)},
			{Server: "[" + netns.Server6 + "]:8080", Sources: netns.Sources(netip.MustParsePrefix("fd80::/48"), 64, 1000)},
			{Server: netns.Server4 + ":8080", Sources: netns.Sources(netip.MustParsePrefix("10.129.0.0/16"), 24, 100), Conns: 300, KeepAlive: true},
			{Server: "[" + netns.Server6 + "]:8080", Sources: netns.Sources(netip.MustParsePrefix("fd80:1::/32"), 48, 1000), KeepAlive: true},
		} {
			l.Rate = 2000
			r := l.Start()
			testkit.Eventually(t, "all of "+l.Sources[0].String()+" and the others have had their two", func() bool {
				c := r.Counts()
				return c.Served == 2*int64(len(l.Sources)) && c.Denied > 0
			})
			peers := netns.Clients4
			if l.Sources[0].Is6() {
				peers = netns.Clients6
			}
			if l.KeepAlive {
				testkit.Eventually(t, "all connections are open", func() bool { return len(w.Sockets(t, peers)) == max(l.Conns, len(l.Sources)) })
			}
			if c := r.Stop(); c.Served != 2*int64(len(l.Sources)) || c.Lost+c.Other > 0 {
				t.Errorf("%d sources: %+v", len(l.Sources), c)
			}
			testkit.Eventually(t, "the server has seen their end", func() bool { return len(w.Sockets(t, peers)) == 0 })
		}
	})
}

// A load of a process of its own is one like others, and ends with the test.
func TestNetnsApart(t *testing.T) {
	netns.Run(t, func() {
		w := netns.New(t)
		server(t, w)
		l := netns.Load{Server: netns.Server4 + ":8080", Sources: netns.Sources(netns.Clients4, 32, 10), Rate: 500}
		a := l.Apart(t)
		testkit.Eventually(t, "all have had their two", func() bool { c := a.Counts(); return c.Served == 20 && c.Denied > 0 })
		c := a.Stop()
		if c.Sent != c.Served+c.Denied || a.Counts().Sent != c.Sent {
			t.Errorf("counts %+v, and once more %+v", c, a.Counts())
		}
		testkit.Eventually(t, "its connections have ended", func() bool { return len(w.Sockets(t, netns.Clients4)) == 0 })
	})
}

// Packets that are dropped: requests are lost, sockets stay, and both are seen.
func TestNetnsDropped(t *testing.T) {
	netns.Run(t, func() {
		w := netns.New(t)
		server(t, w)
		sources := netns.Sources(netns.Clients4, 32, 10)
		r := netns.Load{Server: netns.Server4 + ":8080", Sources: sources, KeepAlive: true, Rate: 1000, Patience: netns.Impatience, Header: "Odd: 1\r\n"}.Start()
		testkit.Eventually(t, "answers", func() bool { return r.Counts().Other > 100 })
		w.Output(t, "nft", "add table inet x; add chain inet x c { type filter hook prerouting priority raw; }; add rule inet x c ip saddr 10.128.0.0/9 drop")
		testkit.Eventually(t, "nothing but losses", func() bool { c := r.For(500 * time.Millisecond); return c.Lost > 10 && c.Lost == c.Sent })
		if n := len(w.Sockets(t, netns.Clients4)); n < len(sources) {
			t.Errorf("%d sockets: a drop ends none", n)
		}
		if n := len(w.Sockets(t, netns.Clients6)); n != 0 {
			t.Errorf("%d sockets of others", n)
		}
		w.Output(t, "nft", "flush", "ruleset")
		testkit.Eventually(t, "nothing but answers", func() bool { c := r.For(500 * time.Millisecond); return c.Other > 100 && c.Other == c.Sent })
		r.Stop()
	})
}

// A test that fails in namespaces fails.
func TestNetnsFailureShows(t *testing.T) {
	if netns.Inside() {
		if os.Getenv(failEnv) != "" {
			t.Fatal("as it should")
		}
		return
	}
	t.Setenv(failEnv, "1")
	f := &failing{T: t}
	func() {
		defer func() { _ = recover() }() // Fatalf ends it
		netns.Run(f, func() {})
	}()
	if !slices.Contains(f.failed, "in namespaces") {
		t.Errorf("failures: %q", f.failed)
	}
}

const failEnv = "FASTLIMIT_NETNS_FAIL"

// failing is a test whose failure is not one.
type failing struct {
	*testing.T
	failed []string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.failed = append(f.failed, "in namespaces")
	panic(fmt.Sprintf(format, args...))
}

// The thread that receives packets for servers spends time when packets come, and none else.
func TestNetnsReceiver(t *testing.T) {
	netns.Run(t, func() {
		w := netns.New(t)
		server(t, w)
		pid, err := w.Receiver()
		if err != nil {
			t.Fatal(err)
		}
		spent := func() time.Duration {
			d, err := proc.CPU(pid)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		before := spent()
		time.Sleep(100 * time.Millisecond)
		idle := spent() - before
		r := netns.Load{Server: netns.Server4 + ":8080", Sources: netns.Sources(netns.Clients4, 32, 100), Rate: 2000}.Start()
		testkit.Eventually(t, "answers", func() bool { return r.Counts().Denied > 1000 })
		r.Stop()
		if busy := spent() - before - idle; busy < 10*idle || busy < 1000*time.Microsecond {
			t.Errorf("%v for 1000 requests, and %v for none", busy, idle)
		}
	})
}
