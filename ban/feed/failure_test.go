package feed

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Pauses double from 1 s to a minute, and only the first failure and the end are logged.
func TestBackOff(t *testing.T) {
	t.Parallel()
	within(t, 10, func(t *testing.T, s *stand) {
		s.kernel.set(func(k *kernel) { k.down, k.asked = errors.New("broken"), nil })
		for i := range 300 {
			s.Add(nth(1), 24*time.Hour+time.Duration(i)*time.Minute) // which does not wake it
			time.Sleep(time.Second)
		}
		var pauses []time.Duration
		s.kernel.set(func(k *kernel) {
			for i, at := range k.asked[1:] {
				pauses = append(pauses, at.Sub(k.asked[i]))
			}
		})
		want := []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 32e9, 60e9, 60e9, 60e9}
		if !slices.Equal(pauses, want) {
			t.Errorf("pauses %v, want %v", pauses, want)
		}
		if st := s.Stats(); st.Up || st.Errors["other"] != 10 || st.Pending != 1 || s.Holds(nth(1).Addr()) {
			t.Errorf("while it is down: %+v", st)
		}
		s.kernel.set(func(k *kernel) { k.down = nil })
		time.Sleep(longestPause)
		if st := s.Stats(); !st.Up || st.Pending != 0 || !s.Holds(nth(1).Addr()) || len(s.kernel.held()) != 1 {
			t.Errorf("afterwards: %+v", st)
		}
		if log := s.log.String(); strings.Count(log, "level=WARN") != 1 || strings.Count(log, "level=INFO") != 1 {
			t.Errorf("logged:\n%s", log)
		}
		// Having been calm for long enough, it begins with short pauses again.
		time.Sleep(calm + longestPause)
		s.kernel.set(func(k *kernel) { k.down = errors.New("broken") })
		time.Sleep(3 * time.Second)
		s.kernel.set(func(k *kernel) { k.down = nil })
		time.Sleep(5 * time.Second)
		if !s.Stats().Up {
			t.Errorf("it still pauses for long:\n%s", s.log.String())
		}
	})
}

// A kernel that fails its first call each time it comes back is not asked ever faster.
func TestFlapping(t *testing.T) {
	t.Parallel()
	within(t, 10, func(t *testing.T, s *stand) {
		for range 600 {
			s.kernel.lose()
			time.Sleep(time.Second)
		}
		s.kernel.set(func(k *kernel) {
			if k.opens < 5 || k.opens > 40 {
				t.Errorf("a table that is deleted every second was made %d times in 10 minutes", k.opens)
			}
		})
	})
}

// A table that was lost is made anew and filled within 2 s, with what is left of each ban.
func TestLostTable(t *testing.T) {
	t.Parallel()
	within(t, 5000, func(t *testing.T, s *stand) {
		for i := range 2500 {
			s.Add(nth(i), time.Duration(1+i)*time.Second)
		}
		time.Sleep(100*time.Second + 500*time.Millisecond)
		s.kernel.lose()
		time.Sleep(2 * time.Second)
		want := 2500 - 102
		if got := s.kernel.held(); len(got) != want || got[nth(2499)] != 2500*time.Second-102500*time.Millisecond {
			t.Errorf("%d held and the last for %v, want %d", len(got), got[nth(2499)], want)
		}
		if st := s.Stats(); !st.Up || st.Refills != 1 || st.Errors["lost"] != 1 || st.Held != want {
			t.Errorf("stats: %+v", st)
		}
		s.Remove(nth(2499))
		time.Sleep(time.Second)
		if len(s.kernel.held()) != want-2 {
			t.Error("what was sent again is not removed")
		}
	})
}

// What was dropped is the sum over all tables.
func TestCountersNeverFall(t *testing.T) {
	t.Parallel()
	within(t, 10, func(t *testing.T, s *stand) {
		s.kernel.set(func(k *kernel) { k.packets = 7 })
		time.Sleep(1500 * time.Millisecond)
		s.kernel.lose()
		time.Sleep(2 * time.Second)
		s.kernel.set(func(k *kernel) { k.packets = 3 })
		time.Sleep(1500 * time.Millisecond)
		if st := s.Stats(); st.Packets != 10 || st.Bytes != 600 {
			t.Errorf("%d packets, %d bytes, want 10 and 600", st.Packets, st.Bytes)
		}
	})
}

// While nothing can be sent, what was removed has to be remembered, but not without bound.
func TestRemovedAreBounded(t *testing.T) {
	t.Parallel()
	within(t, 10, func(t *testing.T, s *stand) {
		for i := range 10 {
			s.Add(nth(i), time.Hour)
		}
		synctest.Wait()
		s.kernel.set(func(k *kernel) { k.down = errors.New("broken") })
		for i := range 1000 {
			s.Remove(nth(i))
			s.Add(nth(10+i), time.Hour)
			if i%10 == 0 {
				time.Sleep(time.Second)
			}
		}
		if n := s.remembered(); n > 20 {
			t.Errorf("%d prefixes are remembered, want at most 20", n)
		}
		s.kernel.set(func(k *kernel) { k.down = nil })
		time.Sleep(longestPause)
		if held := s.kernel.held(); len(held) == 0 || len(held) != s.Stats().Held {
			t.Errorf("the kernel holds %v", held)
		}
	})
}

// A request never waits, and what a slow kernel holds for too long is removed.
func TestSlowWriter(t *testing.T) {
	t.Parallel()
	within(t, 10, func(t *testing.T, s *stand) {
		s.kernel.slow(3*time.Second, 2*time.Second)
		start := time.Now()
		s.Add(nth(1), 9700*time.Millisecond)
		synctest.Wait()
		s.Add(nth(2), time.Hour)
		s.Holds(nth(1).Addr())
		s.Remove(nth(2))
		s.Stats()
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited for %v", waited)
		}
		time.Sleep(6 * time.Second) // carried out after 3 s: it would last until 12.7 s
		s.kernel.slow(0, 0)
		time.Sleep(3700*time.Millisecond + 100*time.Millisecond)
		if held := s.kernel.held(); len(held) != 0 {
			t.Errorf("100 ms after the end of the ban the kernel holds %v", held)
		}
	})
}

// A ban that ends while it is being sent does not stay there.
func TestEndsOnItsWay(t *testing.T) {
	t.Parallel()
	within(t, 10, func(t *testing.T, s *stand) {
		s.kernel.slow(time.Second, 100*time.Millisecond)
		s.Add(nth(1), 800*time.Millisecond)
		s.Add(nth(2), time.Hour)
		synctest.Wait()
		s.Remove(nth(2))
		s.kernel.slow(0, 0)
		time.Sleep(1200 * time.Millisecond)
		if held := s.kernel.held(); len(held) != 0 || s.remembered() != 0 {
			t.Errorf("the kernel holds %v, %d are remembered", held, s.remembered())
		}
	})
}

// Of a batch that has a bad element, 999 are sent.
func TestBadElement(t *testing.T) {
	t.Parallel()
	within(t, 2000, func(t *testing.T, s *stand) {
		s.kernel.set(func(k *kernel) { k.bad = map[netip.Prefix]bool{nth(0): true, nth(777): true} })
		for i := range 1000 {
			s.Add(nth(i), time.Hour)
		}
		time.Sleep(time.Minute)
		if st := s.Stats(); len(s.kernel.held()) != 998 || !st.Up || st.Errors["element"] != 2 || st.Pending != 0 {
			t.Errorf("%d held, %+v", len(s.kernel.held()), st)
		}
		if n := s.log.Count("does not take a ban"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}

// A full set takes as many as it has room for, and the rest when there is more.
func TestFullSet(t *testing.T) {
	t.Parallel()
	within(t, 2000, func(t *testing.T, s *stand) {
		s.kernel.set(func(k *kernel) { k.size = 613 })
		for i := range 1500 {
			s.Add(nth(i), time.Hour)
		}
		synctest.Wait()
		if st := s.Stats(); len(s.kernel.held()) != 613 || st.Up || st.Errors["full"] != 1 || st.Pending != 1500-613 {
			t.Errorf("%d held, %+v", len(s.kernel.held()), st)
		}
		s.kernel.set(func(k *kernel) { k.size = 0 })
		time.Sleep(shortestPause)
		synctest.Wait()
		if st := s.Stats(); len(s.kernel.held()) != 1500 || !st.Up || st.Pending != 0 {
			t.Errorf("%d held, %+v", len(s.kernel.held()), st)
		}
	})
}

// A kernel that cannot be opened again is asked in growing pauses.
func TestCannotReopen(t *testing.T) {
	t.Parallel()
	within(t, 10, func(t *testing.T, s *stand) {
		s.Add(nth(1), time.Hour)
		synctest.Wait()
		s.kernel.set(func(k *kernel) { k.openFails = &Error{ClassTaken, errors.New("taken")} })
		s.kernel.lose()
		time.Sleep(30 * time.Second)
		if st := s.Stats(); st.Up || st.Errors["lost"] != 1 || st.Errors["taken"] != 5 {
			t.Errorf("stats: %+v", st)
		}
		s.kernel.set(func(k *kernel) { k.openFails = nil })
		time.Sleep(longestPause)
		if len(s.kernel.held()) != 1 || !s.Stats().Up {
			t.Errorf("stats: %+v", s.Stats())
		}
	})
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	want := &Error{ClassDenied, errors.New("denied")}
	if _, err := Open(Config{Writer: &kernel{t: t, openFails: want}}); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
	for _, c := range []Config{{}, {Shadow: true, Max: -1}, {Shadow: true, Max: MostBans + 1}} {
		if _, err := Open(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// A change is pending until the kernel has carried it out, also while it is being sent.
func TestPendingWhileTold(t *testing.T) {
	t.Parallel()
	within(t, 10, func(t *testing.T, s *stand) {
		s.kernel.set(func(k *kernel) { k.before = time.Second })
		s.Add(nth(1), time.Hour)
		time.Sleep(time.Second / 2)
		if st := s.Stats(); st.Pending != 1 || len(s.kernel.held()) != 0 {
			t.Errorf("%+v", st)
		}
		time.Sleep(time.Second)
		if st := s.Stats(); st.Pending != 0 || len(s.kernel.held()) != 1 {
			t.Errorf("afterwards: %+v", st)
		}
	})
}
