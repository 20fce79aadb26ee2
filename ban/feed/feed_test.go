package feed

import (
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What is asked for while a batch is on its way makes the next one, of at most 1,000.
func TestBatches(t *testing.T) {
	t.Parallel()
	within(t, 5000, func(t *testing.T, s *stand) {
		s.kernel.slow(time.Second, 0)
		s.Add(nth(0), time.Hour)
		synctest.Wait()
		for i := range 2500 {
			s.Add(nth(1+i), time.Hour)
		}
		time.Sleep(5 * time.Second)
		var sizes []int
		for _, b := range s.kernel.sent() {
			sizes = append(sizes, len(b))
		}
		if want := []int{1, 1000, 1000, 500}; !slices.Equal(sizes, want) {
			t.Errorf("batches of %v, want %v", sizes, want)
		}
	})
}

// However often a ban changes before it is sent to the kernel, it is sent once, the latest.
func TestLatestCounts(t *testing.T) {
	t.Parallel()
	within(t, 10, func(t *testing.T, s *stand) {
		s.kernel.slow(time.Second, 0)
		s.Add(nth(0), time.Hour)
		synctest.Wait()
		for i := range 100 {
			s.Add(nth(1), time.Duration(1+i)*time.Minute)
			s.Remove(nth(2))
			s.Add(nth(2), time.Hour)
			s.Remove(nth(2))
		}
		time.Sleep(5 * time.Second)
		if len(s.kernel.sent()) != 2 || len(s.kernel.sent()[1]) != 1 || s.kernel.sent()[1][0].Prefix != nth(1) {
			t.Errorf("sent %v, want the first ban alone and then the second", s.kernel.sent())
		}
		if left := s.kernel.held()[nth(1)]; left < 99*time.Minute {
			t.Errorf("%v left, want the longest", left)
		}
	})
}

func TestCap(t *testing.T) {
	t.Parallel()
	within(t, 3, func(t *testing.T, s *stand) {
		for i, d := range []time.Duration{time.Second, time.Hour, time.Hour} {
			if !s.Add(nth(i), d) {
				t.Fatal("refused")
			}
		}
		if s.Add(nth(3), time.Hour) || !s.Add(nth(2), 2*time.Hour) || s.Stats().Refused["full"] != 1 {
			t.Errorf("the fourth of 3: %+v", s.Stats())
		}
		time.Sleep(time.Second)
		if !s.Add(nth(4), time.Hour) || s.Add(nth(5), time.Hour) {
			t.Error("one has ended: there is room for one")
		}
		if !s.Remove(nth(4)) || s.Remove(nth(4)) || !s.Add(nth(5), time.Hour) {
			t.Error("one was removed: there is room for one")
		}
	})
}

// A ban takes the place of one that has ended, though the worker has not looked yet, and of none before.
func TestPlaceOfTheEnded(t *testing.T) {
	t.Parallel()
	const most = 10
	s := newBans(&Config{Max: most})
	prefix := func(i int) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 32) }
	for i := range most {
		if why, ok := s.hold(prefix(i), time.Duration(1+i)*time.Second, 0); !ok {
			t.Fatalf("ban %d is refused: %v", i, why)
		}
	}
	for i, tt := range []struct {
		now time.Duration
		ok  bool
	}{{time.Second - 1, false}, {time.Second, true}, {time.Second, false}, {3 * time.Second, true}, {3 * time.Second, true}, {3 * time.Second, false}} {
		if why, ok := s.hold(prefix(100+i), time.Hour, tt.now); ok != tt.ok || !ok && why != RefusedFull {
			t.Errorf("after %v: held %t, %v; want %t", tt.now, ok, why, tt.ok)
		}
	}
}

// Ends are kept to the millisecond, whatever order they are given in.
func TestClock(t *testing.T) {
	t.Parallel()
	within(t, 10, func(t *testing.T, s *stand) {
		s.Add(nth(1), 30*time.Second)
		s.Add(nth(1), 10*time.Second) // does not shorten it
		s.Add(nth(2), 10*time.Second)
		synctest.Wait()
		s.Add(nth(2), 40*time.Second)
		s.Add(nth(3), 10*time.Second)
		for _, step := range []struct {
			at   time.Duration
			held []netip.Prefix
		}{
			{10*time.Second - 1, []netip.Prefix{nth(1), nth(2), nth(3)}},
			{10 * time.Second, []netip.Prefix{nth(1), nth(2)}},
			{30*time.Second - 1, []netip.Prefix{nth(1), nth(2)}},
			{30 * time.Second, []netip.Prefix{nth(2)}},
			{40*time.Second - 1, []netip.Prefix{nth(2)}},
			{40 * time.Second, nil},
		} {
			time.Sleep(step.at - s.now())
			for i := 1; i <= 3; i++ {
				want := slices.Contains(step.held, nth(i))
				if _, kernel := s.kernel.held()[nth(i)]; kernel != want || s.Holds(nth(i).Addr()) != want {
					t.Errorf("after %v: %v is held: %v by the kernel, %v here, want %v", step.at, nth(i), kernel, s.Holds(nth(i).Addr()), want)
				}
			}
		}
		if n := len(s.kernel.sent()); n > 4 {
			t.Errorf("%d batches: what expires by itself is not removed", n)
		}
		time.Sleep(time.Second)
		if n := s.remembered(); n != 0 {
			t.Errorf("%d are remembered", n)
		}
	})
}

func TestShadow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(Config{Shadow: true, Max: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if !f.Add(nth(1), time.Minute) || !f.Add(nth(2), time.Hour) || f.Add(nth(3), time.Hour) {
			t.Error("the cap is not that of enforce")
		}
		if f.Holds(nth(1).Addr()) {
			t.Error("shadow enforces")
		}
		if st := f.Stats(); st.Held != 2 || st.Pending != 0 || st.Added != 2 || st.Refused["full"] != 1 || st.Up || !st.Shadow {
			t.Errorf("stats: %+v", st)
		}
		time.Sleep(time.Minute + time.Second)
		if !f.Remove(nth(2)) || f.Remove(nth(1)) || len(f.bans.all) != 0 {
			t.Error("the first has ended, the second was removed")
		}
	})
}

func TestPrefixes(t *testing.T) {
	t.Parallel()
	within(t, 1000, func(t *testing.T, s *stand) {
		for _, c := range []struct {
			prefix       string
			held, others []string // addresses that are held, and that are not
			refused      string
		}{
			{"192.0.2.7/24", []string{"192.0.2.0", "192.0.2.255", "::ffff:192.0.2.9"}, []string{"192.0.3.0"}, ""},
			{"::ffff:198.51.100.0/120", []string{"198.51.100.3"}, []string{"198.51.101.0", "::198.51.100.3"}, ""},
			{"2001:db8:1:2:3::/64", []string{"2001:db8:1:2::", "2001:db8:1:2:ffff::1%eth0"}, []string{"2001:db8:1:3::"}, ""},
			{"203.0.113.9/32", []string{"203.0.113.9"}, []string{"203.0.113.8"}, ""},
			{"16.0.0.0/7", nil, []string{"16.0.0.1"}, "wide"},
			{"0.0.0.0/0", nil, nil, "wide"},
			{"2001::/15", nil, nil, "wide"},
			{"::ffff:0.0.0.0/96", nil, nil, "wide"},
			{"17.0.0.0/8", []string{"17.1.2.3"}, nil, ""},
		} {
			before := s.Stats()
			ok := s.Add(netip.MustParsePrefix(c.prefix), time.Hour)
			if ok != (c.refused == "") || !ok && s.Stats().Refused[c.refused] != before.Refused[c.refused]+1 {
				t.Errorf("%s: accepted: %v, %+v", c.prefix, ok, s.Stats())
			}
			for _, a := range c.held {
				if !s.Holds(netip.MustParseAddr(a)) {
					t.Errorf("%s does not hold %s", c.prefix, a)
				}
			}
			for _, a := range c.others {
				if s.Holds(netip.MustParseAddr(a)) {
					t.Errorf("%s holds %s", c.prefix, a)
				}
			}
		}
		if s.Add(netip.Prefix{}, time.Hour) || s.Add(nth(1), 0) || s.Add(nth(1), -1) || s.Stats().Refused["invalid"] != 3 || s.Remove(netip.Prefix{}) || s.Holds(netip.Addr{}) {
			t.Error("invalid input")
		}
		if !s.Remove(netip.MustParsePrefix("::ffff:192.0.2.99/120")) || s.Holds(netip.MustParseAddr("192.0.2.1")) {
			t.Error("another way to write it removes nothing")
		}
		if !s.Add(nth(1), 1<<63-1) {
			t.Error("a ban for ever is refused")
		}
	})
}

// Each prefix length is a set in the kernel that stays, so there are few.
func TestLengths(t *testing.T) {
	t.Parallel()
	within(t, 1000, func(t *testing.T, s *stand) {
		ok := 0
		for bits := WidestV6; bits <= 128; bits++ {
			p, _ := netip.MustParseAddr("2001:db8::").Prefix(bits)
			if s.Add(p, time.Second) {
				ok++
			}
			time.Sleep(2 * time.Second)
		}
		if ok != MaxLengths || s.Stats().Refused["lengths"] != uint64(129-WidestV6-MaxLengths) {
			t.Errorf("%d lengths, %+v", ok, s.Stats())
		}
	})
}

// A banned client's requests all call Add: that must cost one look-up.
func TestAddAgainIsCheap(t *testing.T) {
	within(t, 10, func(t *testing.T, s *stand) {
		s.Add(nth(1), time.Hour)
		synctest.Wait()
		if n := testing.AllocsPerRun(1000, func() { s.Add(nth(1), time.Hour) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
		for range 1000 {
			time.Sleep(time.Second)
			s.Add(nth(1), time.Hour-s.now()+10*time.Millisecond)
		}
		if n := len(s.kernel.sent()); n != 1 || s.Stats().Added != 1 {
			t.Errorf("%d batches, %d bans", n, s.Stats().Added)
		}
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	within(t, 10, func(t *testing.T, s *stand) {
		s.kernel.slow(2*time.Second, 0)
		s.Add(nth(1), time.Hour)
		synctest.Wait()
		if err := s.Close(); err != nil || s.kernel.open {
			t.Error(err, "or the kernel is still open")
		}
		if s.Holds(nth(1).Addr()) || s.Stats().Up {
			t.Error("held after Close")
		}
		s.Add(nth(2), time.Hour)
		s.Remove(nth(1))
		if s.Close() != nil {
			t.Error("a second Close")
		}
	})
}

// 10^5 bans take at most 160 bytes each.
func TestMemory(t *testing.T) {
	const n = 100_000
	s := newBans(&Config{Max: n})
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	for i := range n {
		s.hold(nth(i), time.Hour+time.Duration(i), 0)
	}
	each := float64(memory()-before) / n
	t.Logf("%.0f bytes for each of %d bans", each, n)
	if each > 160 {
		t.Errorf("%.0f bytes for each ban", each)
	}
	runtime.KeepAlive(s)
}

func BenchmarkAddAgain(b *testing.B) {
	f, err := Open(Config{Shadow: true})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for i := range 10_000 {
		f.Add(nth(i), time.Hour)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			f.Add(nth(i%10_000), time.Hour-time.Minute)
		}
	})
}
