//go:build linux && netns

package nft

import (
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/google/nftables"
)

var (
	one  = netip.MustParsePrefix("192.0.2.1/32")
	two  = netip.MustParsePrefix("192.0.2.2/32")
	wide = netip.MustParsePrefix("198.51.100.0/24")
	six  = netip.MustParsePrefix("2001:db8::/64")
)

// stand is a feed that the kernel is fed with.
type stand struct {
	*feed.Feed
	table string
	log   testkit.Log
}

func open(t testing.TB, c Config, ownless bool) *stand {
	t.Helper()
	w := made(t, c)
	w.ownless = ownless
	s := &stand{table: w.config.Table}
	var err error
	s.Feed, err = feed.Open(feed.Config{Writer: w, Max: w.config.Max, Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func made(t testing.TB, c Config) *Writer {
	t.Helper()
	if c.Listens == nil {
		c.Listens = ports(80)
	}
	w, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func opened(t testing.TB, c Config, ownless bool) *Writer {
	t.Helper()
	w := made(t, c)
	w.ownless = ownless
	if err := w.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// listed are the elements of a set and how long they have left, without its canary.
func listed(t testing.TB, table string, of netip.Prefix) map[netip.Addr]time.Duration {
	t.Helper()
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.GetSetElements(&nftables.Set{Table: &nftables.Table{Name: table, Family: nftables.TableFamilyINet}, Name: kindOf(of).name()})
	if err != nil {
		return nil // there is no such set
	}
	left := make(map[netip.Addr]time.Duration)
	for _, e := range all {
		if a, ok := netip.AddrFromSlice(e.Key); ok && e.Timeout > 0 {
			left[a] = e.Expires
		}
	}
	return left
}

func held(t testing.TB, table string, p netip.Prefix) bool {
	t.Helper()
	return listed(t, table, p)[p.Addr()] > 0
}

// until waits, and logs for how long.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	start := time.Now()
	testkit.Eventually(t, what, f)
	t.Logf("%s: after %v", what, time.Since(start).Round(time.Millisecond))
}

// Packets of banned sources to the ports are dropped, and no others.
func TestDrops(t *testing.T) {
	for _, c := range []struct {
		table, server, client, neighbour, ban string
	}{
		{"IPv4", "127.0.0.1", "127.0.5.1", "127.0.5.2", "127.0.5.1/32"},
		{"IPv4_prefix", "127.0.0.1", "127.0.6.200", "127.0.7.1", "127.0.6.0/24"},
		{"IPv6_prefix", "fd00::1", "fd00:0:0:5::7", "fd00:0:0:6::7", "fd00:0:0:5::/64"},
		{"IPv6", "fd00::1", "fd00:0:0:5::7", "fd00:0:0:5::8", "fd00:0:0:5::7/128"},
		{"IPv6_at_no_byte", "fd00::1", "fd00:0:0:5::9", "fd00:0:0:6::9", "fd00:0:0:4::/63"},
	} {
		t.Run(c.table, func(t *testing.T) {
			t.Parallel()
			for _, a := range []string{c.server, c.client, c.neighbour} {
				addAddress(t, a)
			}
			limited, other := serve(t, c.server), serve(t, c.server)
			s := open(t, Config{Table: c.table, Listens: []netip.AddrPort{netip.MustParseAddrPort(limited), netip.MustParseAddrPort("0.0.0.0:9")}}, false)
			dial := func(from, to string, patience time.Duration) error {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
				conn, err := d.Dial("tcp", to)
				if err == nil {
					conn.Close()
				}
				return err
			}
			if err := dial(c.client, limited, 10*time.Second); err != nil {
				t.Fatal("before the ban:", err)
			}
			ban := netip.MustParsePrefix(c.ban)
			told := func() bool { return s.Stats().Pending == 0 && s.Stats().Up }
			s.Add(ban, time.Hour)
			until(t, "told", told)
			if dial(c.client, limited, 100*time.Millisecond) == nil {
				t.Error("a banned client connects")
			}
			if err := dial(c.neighbour, limited, 10*time.Second); err != nil {
				t.Error("a neighbour:", err)
			}
			if err := dial(c.client, other, 10*time.Second); err != nil {
				t.Error("another port:", err)
			}
			until(t, "counted", func() bool { st := s.Stats(); return st.Packets > 0 && st.Bytes >= 40*st.Packets })
			served := func() bool { return dial(c.client, limited, 50*time.Millisecond) == nil }
			s.Remove(ban)
			until(t, "served after the removal", served)
			began := time.Now()
			s.Add(ban, time.Second)
			until(t, "told", told)
			until(t, "served after the ban", served)
			if ran := time.Since(began); ran < time.Second-20*time.Millisecond {
				t.Errorf("served %v after the beginning of a ban of 1 s", ran)
			}
		})
	}
}

func serve(t *testing.T, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// An element that exists is given its new time, and one that does not exist is removed
// without an error, beside others in one batch.
func TestAlreadyThereAndAlreadyGone(t *testing.T) {
	for _, ownless := range []bool{false, true} {
		w := opened(t, Config{}, ownless)
		apply := func(changes ...feed.Change) {
			t.Helper()
			if err := w.Apply(changes); err != nil {
				t.Error(err)
			}
		}
		apply(feed.Change{Prefix: one, For: time.Hour}, feed.Change{Prefix: six, For: time.Hour})
		apply(feed.Change{Prefix: one, For: time.Minute}, feed.Change{Prefix: two, For: time.Hour}, feed.Change{Prefix: wide, For: time.Hour})
		if left := listed(t, "fastlimit", one); left[one.Addr()] > time.Minute || left[one.Addr()] < 30*time.Second || left[two.Addr()] < 59*time.Minute {
			t.Errorf("left: %v, want a minute and an hour", left)
		}
		apply(feed.Change{Prefix: one}, feed.Change{Prefix: six})
		apply(feed.Change{Prefix: one}, feed.Change{Prefix: two}, feed.Change{Prefix: six, For: time.Hour})
		apply(feed.Change{Prefix: one})
		apply(feed.Change{Prefix: netip.MustParsePrefix("10.0.0.0/8")}) // of a set that there never was
		if len(listed(t, "fastlimit", one)) != 0 || !held(t, "fastlimit", six) || !held(t, "fastlimit", wide) {
			t.Errorf("v4 %v, v6 %v, /24 %v", listed(t, "fastlimit", one), listed(t, "fastlimit", six), listed(t, "fastlimit", wide))
		}
		w.Close()
	}
}

// Elements expire by themselves, however short their life, and never live forever.
func TestExpires(t *testing.T) {
	w := opened(t, Config{}, false)
	for i, life := range []time.Duration{1, time.Microsecond, time.Millisecond, 3 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		if err := w.Apply([]feed.Change{{Prefix: nth(i), For: life}}); err != nil {
			t.Error(err)
		}
	}
	until(t, "all have expired", func() bool {
		return strings.Count(mustTool(t, "list", "set", "inet", "fastlimit", "v4_32"), "10.0.0.") == 0
	})
}

// A full set says so, takes no part of a batch, and still lets go of what it does not hold.
func TestFullSet(t *testing.T) {
	const size = 2 * 50 // and the canary
	w := opened(t, Config{Max: 50}, true)
	nth := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
	}
	var all []feed.Change
	for i := range size {
		all = append(all, feed.Change{Prefix: nth(i), For: time.Hour})
	}
	if err := w.Apply(all); err != nil {
		t.Fatal(err)
	}
	if err := w.Apply([]feed.Change{{Prefix: nth(size), For: time.Hour}}); class(err) != feed.ClassFull {
		t.Errorf("one too many: %v", err)
	}
	if err := w.Apply([]feed.Change{{Prefix: nth(size)}}); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
	if n := len(listed(t, "fastlimit", one)); n != size {
		t.Errorf("%d elements, want %d", n, size)
	}
}

// A feed whose set somebody else has filled tells what there is room for, goes on with 429s, and tells the
// rest when there is room.
func TestFeedOfFullSet(t *testing.T) {
	s := open(t, Config{Max: 50}, true)
	s.Add(one, time.Hour)
	until(t, "told", func() bool { return held(t, s.table, one) })
	var theirs []string
	for i := range 2*50 - 1 - 20 {
		theirs = append(theirs, "10.0.0."+strconv.Itoa(i))
	}
	list := "{ " + strings.Join(theirs, ", ") + " }"
	mustTool(t, "add", "element", "inet", s.table, "v4_32", list)
	for i := range 30 {
		s.Add(nth(1000+i), time.Hour)
	}
	until(t, "down", func() bool { st := s.Stats(); return !st.Up && st.Errors["full"] > 0 })
	if st := s.Stats(); st.Pending != 10 || len(listed(t, s.table, one)) != 21 || s.Holds(one.Addr()) {
		t.Errorf("%d elements of ours, %+v", len(listed(t, s.table, one)), st)
	}
	mustTool(t, "delete", "element", "inet", s.table, "v4_32", list)
	until(t, "up", func() bool { st := s.Stats(); return st.Up && st.Pending == 0 })
	if n := len(listed(t, s.table, one)); n != 31 || !s.Holds(one.Addr()) {
		t.Errorf("%d elements", n)
	}
}
