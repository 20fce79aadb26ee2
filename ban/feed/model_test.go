package feed

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// model is what should be held: a map, and the rules that Add and Remove state.
type model map[netip.Prefix]time.Time

func (m model) add(p netip.Prefix, d time.Duration) {
	if end := time.Now().Add(d); end.After(m[p]) {
		m[p] = end
	}
}

func (m model) alive() map[netip.Prefix]time.Duration {
	alive := make(map[netip.Prefix]time.Duration)
	for p, end := range m {
		if left := time.Until(end); left > 0 {
			alive[p] = left
		}
	}
	return alive
}

// compare says how the kernel's elements differ from the model's bans. What the kernel was
// sent late lasts late: it has to be removed soon after the end of the ban. And an
// element may be missing in the last moments of a ban.
func compare(t *testing.T, kernel map[netip.Prefix]time.Duration, m model, slowest time.Duration) {
	t.Helper()
	for p, left := range kernel {
		want := time.Until(m[p])
		if want < -3*slack || left > max(want, 0)+slowest {
			t.Errorf("%v is held for %v, want %v", p, left, want)
		}
	}
	for p, want := range m.alive() {
		if left := kernel[p]; left < want-slack && want > least+slack {
			t.Errorf("%v is held for %v, want %v", p, left, want)
		}
	}
}

// history is a random course of events on few prefixes, so that much happens to each.
func history(t *testing.T, s *stand, rng *rand.Rand) model {
	m := make(model)
	prefixes := make([]netip.Prefix, 1+rng.IntN(40))
	for i := range prefixes {
		a := netip.AddrFrom4([4]byte{10, byte(rng.IntN(3)), 0, byte(rng.IntN(20))})
		prefixes[i], _ = a.Prefix([]int{32, 32, 24, 16}[rng.IntN(4)])
	}
	step := func() {
		p := prefixes[rng.IntN(len(prefixes))]
		switch rng.IntN(10) {
		case 0, 1, 2, 3:
			d := time.Duration(rng.Int64N(int64(10 * time.Minute)))
			if rng.IntN(2) == 0 {
				d = time.Duration(1 + rng.Int64N(int64(time.Second)))
			}
			if d > 0 && s.Add(p, d) {
				m.add(p, d)
			}
		case 4, 5:
			if s.Remove(p) != (m.alive()[p] > 0) {
				t.Errorf("Remove of %v, which %v", p, m.alive()[p])
			}
			delete(m, p)
		case 6:
			time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second))))
		case 7:
			time.Sleep(time.Duration(rng.Int64N(int64(30 * time.Millisecond))))
		case 8:
			synctest.Wait()
		case 9:
			mood(s.kernel, rng)
		}
	}
	for range 200 {
		step()
	}
	return m
}

// slowest is the longest that each half of a batch takes.
const slowest = 300 * time.Millisecond

// mood changes how the kernel behaves.
func mood(k *kernel, rng *rand.Rand) {
	pause := func() time.Duration { return time.Duration(rng.Int64N(int64(slowest))) }
	before, late := pause(), pause()
	if rng.IntN(3) > 0 {
		before, late = 0, 0
	}
	what := rng.IntN(6)
	lies := rng.IntN(2) == 0
	k.set(func(k *kernel) {
		k.before, k.late = before, late
		switch what {
		case 0:
			k.open, k.elements = false, nil
		case 1:
			k.down, k.lies = &Error{ClassBusy, errors.New("busy")}, lies
		case 2:
			k.size = 1 + rng.IntN(10)
		default:
			k.down, k.lies, k.size = nil, false, 0
		}
	})
}

// Whatever was asked for and however the kernel behaved meanwhile, it ends up holding
// what it should, each until its own end.
func TestModel(t *testing.T) {
	t.Parallel()
	histories := 1500
	if testing.Short() {
		histories = 300
	}
	held := 0
	for seed := range histories {
		within(t, 30, func(t *testing.T, s *stand) {
			m := history(t, s, rand.New(rand.NewPCG(uint64(seed), 17)))
			s.kernel.set(func(k *kernel) { k.before, k.late, k.down, k.lies, k.size = 0, 0, nil, false, 0 })
			time.Sleep(longestPause + 3*time.Second)
			st := s.Stats()
			if alive := m.alive(); !st.Up || st.Pending != 0 || st.Held != len(alive) {
				t.Errorf("stats: %+v, want %d held", st, len(alive))
			}
			held += st.Held
			compare(t, s.kernel.held(), m, 2*slowest)
			for p := range m {
				if got, want := s.Holds(p.Addr()), covered(m, p.Addr()); got != want {
					t.Errorf("Holds(%v): %v", p.Addr(), got)
				}
			}
			time.Sleep(10*time.Minute + 50*time.Millisecond)
			if n := s.remembered(); n != 0 || len(s.kernel.held()) != 0 {
				t.Errorf("%d prefixes are remembered, the kernel holds %v", n, s.kernel.held())
			}
			for _, l := range append(s.bans.lengths.v4, s.bans.lengths.v6...) {
				if l.bans != 0 {
					t.Errorf("%d bans of length %d are counted", l.bans, l.bits)
				}
			}
			if t.Failed() {
				t.Logf("seed %d\n%s", seed, s.log.String())
			}
		})
		if t.Failed() {
			return
		}
	}
	if held < 2*histories {
		t.Errorf("%d bans held at the end of %d histories: they test little", held, histories)
	}
}

func covered(m model, a netip.Addr) bool {
	for p := range m.alive() {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// A kernel that works holds nobody for more than 100 ms beyond the end of the ban, at any
// time, however slow it is now and then.
func TestServedInTime(t *testing.T) {
	t.Parallel()
	for seed := range 300 {
		within(t, 30, func(t *testing.T, s *stand) {
			rng := rand.New(rand.NewPCG(uint64(seed), 3))
			m := make(model)
			for range 300 {
				p := nth(rng.IntN(5))
				s.kernel.slow(0, 0)
				if rng.IntN(4) == 0 {
					s.kernel.slow(time.Duration(rng.Int64N(int64(40*time.Millisecond))), 0)
				}
				d := time.Duration(1 + rng.Int64N(int64(500*time.Millisecond)))
				switch rng.IntN(4) {
				case 0:
					s.Add(p, d)
					m.add(p, d)
				case 1:
					s.Remove(p)
					m[p] = time.Now()
				default:
					time.Sleep(time.Duration(rng.Int64N(int64(100 * time.Millisecond))))
				}
				for p := range s.kernel.held() {
					if over := -time.Until(m[p]); over > 100*time.Millisecond {
						t.Errorf("seed %d: %v is held %v after the end of its ban", seed, p, over)
					}
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}
