//go:build linux && netns

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/netns"
	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
)

// One source of either family, and how their bans are called.
var (
	source4, source6 = netip.MustParseAddr("10.128.0.1"), netip.MustParseAddr("fd80::1")
	key4, key6       = "10.128.0.1", "fd80::/64"
)

// dial connects until the test ends.
func dial(t *testing.T, from netip.Addr) net.Conn {
	t.Helper()
	c, err := netns.Dial(t.Context(), from, at(from))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(hang)) // of an open socket
	return c
}

// freeze stops the process and waits until all of its threads have stopped.
func (b *besieged) freeze() {
	b.t.Helper()
	b.signal(syscall.SIGSTOP)
	testkit.Eventually(b.t, "the process to stop", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", b.cmd.Process.Pid))
		for _, name := range threads {
			stat, _ := os.ReadFile(name)
			if _, state, _ := bytes.Cut(stat, []byte(") ")); !bytes.HasPrefix(state, []byte("T")) {
				return false
			}
		}
		return len(threads) > 0
	})
}

// When a client is banned all its connections end, whatever goes on in them: those that wait for a
// request, those with half of one, and those that nobody has accepted yet.
func TestNetnsSocketsOfTheBanned(t *testing.T) {
	netns.Run(t, func() {
		b := besiege(t, banAfter5, inKernel+"listen: [{address: \":8080\", defer_accept: false}]\n") // all are accepted, also who is silent
		for _, source := range []netip.Addr{source4, source6} {
			peer := netip.PrefixFrom(source, source.BitLen())
			offender := dial(t, source)
			for range 2 + 4 { // the burst, and all denials but one
				rawhttp.Ask(offender)
			}
			all := []net.Conn{offender}
			for i := range 20 {
				c := dial(t, source)
				if i%2 == 0 {
					io.WriteString(c, "GET / HTTP/1.1\r\nHost:")
				}
				all = append(all, c)
			}
			b.freeze()
			for range 20 {
				c := dial(t, source) // by the kernel
				io.WriteString(c, request)
				all = append(all, c)
			}
			io.WriteString(offender, request)
			if n := len(b.Sockets(t, peer)); n != len(all) {
				t.Errorf("%d sockets of %v, want %d", n, source, len(all))
			}
			b.signal(syscall.SIGCONT)
			start := time.Now()
			if n := b.socketless(t, peer); n > 0 {
				t.Errorf("%d connections of %v were closed, and not reset", n, source)
			}
			t.Logf("no socket of %v after %v", source, time.Since(start).Round(time.Millisecond))
			for i, c := range all {
				if _, err := io.Copy(io.Discard, c); isTimeout(err) {
					t.Errorf("connection %d of %v is open at the client", i, source)
				}
			}
		}
	})
}

// offend floods from both sources until they are banned, and their bans are in the kernel.
func (b *besieged) offend() (floods []*netns.Running) {
	b.t.Helper()
	for _, s := range []netip.Addr{source4, source6} {
		r := attack([]netip.Addr{s}, 100).Start()
		b.t.Cleanup(func() { r.Stop() })
		testkit.Eventually(b.t, fmt.Sprintf("%v is denied", s), func() bool { return r.Counts().Denied > 0 })
		floods = append(floods, r)
	}
	b.dropped(floods)
	return floods
}

// dropped waits until floods get no answer any more.
func (b *besieged) dropped(floods []*netns.Running) {
	b.t.Helper()
	for _, r := range floods {
		testkit.Eventually(b.t, fmt.Sprintf("%v and others are dropped", r.Sources[0]), func() bool { c := r.For(300 * time.Millisecond); return c.Lost > 0 && c.Lost == c.Sent })
	}
}

// table is what the kernel says of the table of bans, "" if there is none.
func (b *besieged) table() string {
	out, _ := b.Command("nft", "list", "table", "inet", "fastlimit").Output()
	return string(out)
}

// holds reports whether the kernel has just these of the two keys.
func (b *besieged) holds(keys ...string) bool {
	text := b.table()
	for _, k := range []string{key4, key6} {
		bare, _, _ := strings.Cut(k, "/")
		if strings.Contains(text, bare+" ") != slices.Contains(keys, k) {
			return false
		}
	}
	return text != ""
}

// What others do to the kernel's table is undone, and it goes with the process.
func TestNetnsTableFollowsBans(t *testing.T) {
	netns.Run(t, func() {
		w := netns.New(t)
		b := siegeIn(t, w, banAfter5, inKernel)
		floods := b.offend()
		if !b.holds(key4, key6) {
			t.Errorf("the table holds other bans: %s", b.table())
		}
		for _, c := range b.bans().Bans {
			if !c.Kernel || c.Rule != "per-ip" || c.By != "rule" || c.Times != 1 || c.SecondsLeft <= 0 || c.SecondsLeft > 60 {
				t.Errorf("listed as %+v", c)
			}
		}
		for _, attack := range []string{"flush ruleset", "delete table inet fastlimit", "flush table inet fastlimit"} {
			out, err := w.Command("nft", attack).CombinedOutput()
			start := time.Now()
			testkit.Eventually(t, "the bans are back after "+attack, func() bool { return b.holds(key4, key6) })
			t.Logf("%s: %v %.60s: whole after %v", attack, err, out, time.Since(start).Round(time.Millisecond))
			b.dropped(floods)
		}
		for i, key := range []string{key4, key6} {
			if code, out, errs := command(t, nil, "unban", key, "--admin", b.admin); code != 0 {
				t.Fatalf("unban: %d %s%s", code, out, errs)
			}
			before := floods[i].Counts().Served
			testkit.Eventually(t, key+" is served again", func() bool { return floods[i].Counts().Served > before })
		}
		b.dropped(floods) // for the next offences
		b.signal(syscall.SIGTERM)
		if code := b.wait(); code != 0 || b.table() != "" {
			t.Errorf("exit code %d after SIGTERM, and left is %q", code, b.table())
		}
	})
}

// A process that is killed takes its table along, and the next one begins with none; a second
// one beside it does not touch the first one's.
func TestNetnsKilled(t *testing.T) {
	netns.Run(t, func() {
		w := netns.New(t)
		b := siegeIn(t, w, banAfter5, inKernel)
		floods := b.offend()
		other := w.Unprivileged(binary, "serve", "-c",
			writeFile(t, "c.yaml", "listen: \":8088\"\nadmin: 127.0.0.1:8089\n"+inKernel+"rules: [{name: per-ip, key: ip, rate: 1/s"+banAfter5+"}]\n"))
		out, err := other.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "fastlimit") || !b.holds(key4, key6) {
			t.Errorf("a second process with the same table: %v: %s", err, out)
		}
		for _, r := range floods {
			r.Stop()
		}
		b.signal(syscall.SIGKILL)
		b.wait()
		start := time.Now()
		testkit.Eventually(t, "the table is gone", func() bool { return b.table() == "" })
		t.Logf("gone %v after SIGKILL", time.Since(start).Round(time.Millisecond))
		b = siegeIn(t, w, banAfter5, inKernel)
		if rawhttp.Ask(dial(t, source4)) != 200 || b.bans().Total != 0 {
			t.Error("the new process knows bans of the old one")
		}
	})
}

// A client is served again when its ban ends, and the kernel has it no longer.
func TestNetnsBanEnds(t *testing.T) {
	netns.Run(t, func() {
		besiege(t, ", ban: {after: 5, within: 10s, for: 2s}", inKernel)
		var both sync.WaitGroup
		for _, source := range []netip.Addr{source4, source6} {
			offender := dial(t, source)
			var banned time.Time
			for range 2 + 5 {
				rawhttp.Ask(offender)
				banned = time.Now()
			}
			both.Go(func() {
				l := from([]netip.Addr{source}, 100)
				l.Conns, l.Patience = 10, 100*time.Millisecond
				r := l.Start()
				until(t, "served again", func() bool { return r.Counts().Served > 0 })
				took := time.Since(banned)
				if c := r.Stop(); took < 2*time.Second-200*time.Millisecond || c.Lost == 0 {
					t.Errorf("%v is served %v after it was banned: %+v", source, took, c)
				}
				t.Logf("%v is served %v after its ban of 2 s began", source, took.Round(time.Millisecond))
			})
		}
		both.Wait()
	})
}
