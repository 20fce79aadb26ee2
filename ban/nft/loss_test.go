//go:build linux && netns

package nft

import (
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/ban/feed"
	"golang.org/x/sys/unix"
)

func class(err error) feed.Class {
	if e, ok := errors.AsType[*feed.Error](err); ok {
		return e.Class
	}
	return feed.ClassOther
}

// A table that has an owner cannot be touched by others.
func TestOwned(t *testing.T) {
	s := open(t, Config{}, false)
	s.Add(one, time.Hour)
	until(t, "told", func() bool { return held(t, s.table, one) })
	mustTool(t, "flush", "ruleset")
	for _, args := range [][]string{
		{"delete", "table", "inet", s.table},
		{"flush", "set", "inet", s.table, "v4_32"},
		{"flush", "chain", "inet", s.table, "banned"},
		{"delete", "element", "inet", s.table, "v4_32", "{ 192.0.2.1 }"},
		{"add", "table", "inet", s.table, "{ flags dormant; }"},
	} {
		if out, err := tool(t, args...); err == nil {
			t.Errorf("nft %v: %s", args, out)
		}
	}
	if !held(t, s.table, one) {
		t.Error("the ban is gone")
	}
}

// A table that has none is made anew within 2 s whatever others do to it.
func TestMadeAnew(t *testing.T) {
	for _, args := range [][]string{
		{"flush", "ruleset"},
		{"delete", "table", "inet", "fastlimit"},
		{"flush", "set", "inet", "fastlimit", "v4_32"},
		{"flush", "set", "inet", "fastlimit", "v6_64"},
		{"flush", "set", "inet", "fastlimit", "ports"},
		{"flush", "chain", "inet", "fastlimit", "banned"},
		{"flush", "chain", "inet", "fastlimit", "prerouting"},
		{"flush", "table", "inet", "fastlimit"},
		{"add", "table", "inet", "fastlimit", "{ flags dormant; }"},
		{"flush ruleset; add table inet fastlimit; add set inet fastlimit v4_32 { type ipv4_addr; flags timeout; }"},
		{"flush chain inet fastlimit banned; delete set inet fastlimit v4_32; add rule inet fastlimit banned accept"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			s := open(t, Config{}, true)
			s.Add(one, time.Hour)
			s.Add(six, time.Hour)
			until(t, "told", func() bool { return held(t, s.table, one) && held(t, s.table, six) })
			mustTool(t, args...)
			until(t, "made anew", func() bool { return s.Stats().Refills == 1 && s.Stats().Up && s.Stats().Pending == 0 })
			if !held(t, s.table, one) || !held(t, s.table, six) || strings.Contains(mustTool(t, "list", "table", "inet", s.table), "dormant") {
				t.Error(mustTool(t, "list", "ruleset"))
			}
			if st := s.Stats(); st.Errors["lost"] == 0 {
				t.Errorf("stats: %+v", st)
			}
		})
	}
}

// A copy of the table in its place, as a firewall loads what it has saved, holds the bans
// of then.
func TestRestoredCopy(t *testing.T) {
	s := open(t, Config{}, true)
	s.Add(one, time.Hour)
	until(t, "told", func() bool { return held(t, s.table, one) })
	saved := mustTool(t, "list", "ruleset")
	s.Remove(one)
	s.Add(two, time.Hour)
	until(t, "told", func() bool { return held(t, s.table, two) && !held(t, s.table, one) })
	mustTool(t, "flush ruleset; "+saved)
	if !held(t, s.table, one) || held(t, s.table, two) {
		t.Fatal("not the copy: ", mustTool(t, "list", "ruleset"))
	}
	until(t, "made anew", func() bool { return held(t, s.table, two) && !held(t, s.table, one) })
}

// Other tables come and go without a refill.
func TestOtherTables(t *testing.T) {
	w := opened(t, Config{}, true)
	if err := w.Apply([]feed.Change{{Prefix: one, For: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	mustTool(t, "add table inet other; add chain inet other c { type filter hook prerouting priority 0; }; add table ip fastlimit")
	for range 2 {
		if _, _, err := w.Counters(); err != nil {
			t.Error(err)
		}
		mustTool(t, "delete table inet other; delete table ip fastlimit")
		mustTool(t, "add table inet other; add table ip fastlimit")
	}
	mustTool(t, "delete table inet other; delete table ip fastlimit")
}

// Two instances need two names, with owners and without.
func TestTwoInstances(t *testing.T) {
	for _, ownless := range []bool{false, true} {
		first := open(t, Config{}, ownless)
		first.Add(one, time.Hour)
		second := made(t, Config{})
		second.ownless = ownless
		if err := second.Open(); class(err) != feed.ClassTaken || !strings.Contains(err.Error(), "kernel.table") {
			t.Errorf("the second of one name: %v", err)
		}
		other := open(t, Config{Table: "other"}, ownless)
		other.Add(two, time.Hour)
		until(t, "both told", func() bool { return held(t, "fastlimit", one) && held(t, "other", two) })
		if held(t, "fastlimit", two) || held(t, "other", one) {
			t.Error("they share elements")
		}
		if err := other.Close(); err != nil || !held(t, "fastlimit", one) {
			t.Error("the end of one harms the other:", err)
		}
		if first.Close(); second.Open() != nil {
			t.Error("the name is not free again")
		}
		second.Close()
	}
	if out := mustTool(t, "list", "ruleset"); out != "" {
		t.Error("left behind:", out)
	}
}

// A process without the flag does not replace the table of one that has it.
func TestOwnlessMeetsOwner(t *testing.T) {
	first := open(t, Config{}, false)
	first.Add(one, time.Hour)
	until(t, "told", func() bool { return held(t, "fastlimit", one) })
	second := made(t, Config{})
	second.ownless = true
	if err := second.Open(); class(err) != feed.ClassTaken {
		t.Errorf("got %v", err)
	}
	if !held(t, "fastlimit", one) {
		t.Error("the first has lost its ban")
	}
}

// What a process leaves behind that was killed without an owner is replaced.
func TestLeftBehind(t *testing.T) {
	for _, ownless := range []bool{false, true} {
		mustTool(t, "add table inet fastlimit; add chain inet fastlimit prerouting { type filter hook prerouting priority 0; policy drop; }; add set inet fastlimit v4_32 { type ipv4_addr; elements = { 192.0.2.2 }; }")
		s := open(t, Config{}, ownless)
		s.Add(one, time.Hour)
		until(t, "told", func() bool { return held(t, s.table, one) })
		if out := mustTool(t, "list", "ruleset"); strings.Contains(out, "policy drop") || strings.Contains(out, "192.0.2.2") {
			t.Error(out)
		}
		s.Close()
	}
}

// However a process ends, its bans end with it; without an owner only if it may clean up.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		role   string
		signal os.Signal
		stays  bool
	}{
		{"owner", syscall.SIGKILL, false},
		{"owner", syscall.SIGTERM, false},
		{"ownless", syscall.SIGTERM, false},
		{"ownless", syscall.SIGKILL, true},
	} {
		t.Run(c.role+" "+c.signal.String(), func(t *testing.T) {
			child := start(t, c.role, nil)
			if !held(t, "fastlimit", one) {
				t.Fatal("not banned by", child.said)
			}
			if err := child.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			child.Wait()
			if !c.stays {
				until(t, "gone", func() bool { return mustTool(t, "list", "ruleset") == "" })
				return
			}
			if !held(t, "fastlimit", one) {
				t.Error("gone, though nobody has removed it")
			}
			s := open(t, Config{}, true) // the next start replaces it
			if held(t, s.table, one) {
				t.Error("still banned")
			}
		})
	}
}

// CAP_NET_ADMIN is all it takes, and without it the error says what to grant.
func TestNobody(t *testing.T) {
	const nobody = 65534
	granted := user(nobody, unix.CLONE_NEWNET)
	granted.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	if child := start(t, "owner", granted); child.said != "ready as "+strconv.Itoa(nobody) {
		t.Error(child.said)
	}
	child := start(t, "owner", user(nobody, 0)) // may nothing in our network namespace
	if !strings.Contains(child.said, "AmbientCapabilities=CAP_NET_ADMIN") || !strings.Contains(child.said, "operation not permitted") {
		t.Errorf("without the capability: %s", child.said)
	}
}

// 10^5 bans through the feed; how long they take is in the log, and in BenchmarkFeed.
func TestManyBans(t *testing.T) {
	const n = 100_000
	s := open(t, Config{Max: n}, false)
	took := fill(t, s, n)
	t.Logf("%d bans in %v", n, took)
	// Not listed: that takes 10 s, and skips elements while the kernel's table grows.
	w := opened(t, Config{Table: "asks"}, false)
	w.config.Table = s.table
	for i := range n {
		if i%7 > 0 && i < n-1000 {
			continue
		}
		a := nth(i).Addr()
		if err := w.sings(set{"v4_32", a.AsSlice()}); err != nil {
			t.Fatalf("%v: %v", a, err)
		}
	}
}

func nth(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
}

// fill bans n addresses and waits until the kernel holds them.
func fill(t testing.TB, s *stand, n int) time.Duration {
	t.Helper()
	start := time.Now()
	for i := range n {
		if !s.Add(nth(i), time.Hour) {
			t.Fatal("refused")
		}
	}
	for st := s.Stats(); st.Pending > 0; st = s.Stats() {
		if !st.Up {
			t.Fatalf("%+v\n%s", st, s.log.String())
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(start)
}
