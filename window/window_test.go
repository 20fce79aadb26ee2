package window

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

const (
	// testWindow makes the period 17 s and the grace of an inline turn 1.0625 s.
	testWindow = 16 * time.Second
	testPeriod = 17 * time.Second
)

// New is Init of a filter of its own.
func New(w time.Duration, words int, now time.Duration) (*Filter, error) {
	f := new(Filter)
	return f, f.Init(w, words, now)
}

func newFilter(tb testing.TB, words int, now time.Duration) *Filter {
	tb.Helper()
	f, err := New(testWindow, words, now)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// key is the digest of client i.
func key(i int) sketch.Digest {
	rng := rand.New(rand.NewPCG(uint64(i), 99))
	return sketch.Digest{Pos: rng.Uint64(), ID: rng.Uint64()}
}

// TestSteps traces clients a and b through turns. Operations: "a" is a first
// sight of a, "A" a repeated one, "b" and "B" likewise, "?a" a is known, "!a"
// it is not, "+" a call of Advance, "t3" three turns so far.
func TestSteps(t *testing.T) {
	t.Parallel()
	type step struct {
		at time.Duration // ms
		op string
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"first sight and repeats", []step{{0, "!a"}, {0, "a"}, {0, "?a"}, {0, "A"}, {9000, "A"}, {9000, "b"}, {9000, "B"}}},
		{"Known marks nothing", []step{{0, "!a"}, {0, "!a"}, {0, "a"}}},
		{"forgotten at the second turn", []step{
			{0, "a"},
			{16999, "+"},
			{16999, "t0"},
			{17000, "+"},
			{17000, "t1"},
			{17000, "?a"},
			{33999, "+"},
			{33999, "?a"},
			{34000, "+"},
			{34000, "t2"},
			{34000, "!a"},
			{34000, "a"},
		}},
		{"a sighting in the previous generation marks the current one", []step{
			{0, "a"}, {17000, "+"}, {20000, "A"}, {34000, "+"}, {34000, "?a"}, {51000, "+"}, {51000, "!a"},
		}},
		{"marked just before a turn, remembered for W", []step{
			{16999, "a"}, {17000, "+"}, {32999, "?a"}, {33999, "+"}, {33999, "?a"}, {34000, "+"}, {34000, "!a"},
		}},
		{"a late turn moves the next one", []step{
			{0, "a"}, {20000, "+"}, {20000, "t1"}, {36999, "+"}, {36999, "t1"}, {37000, "+"}, {37000, "t2"}, {37000, "!a"},
		}},
		{"Advance turns once for a time", []step{{17000, "+"}, {17000, "+"}, {17001, "+"}, {17001, "t1"}}},

		{"nobody calls Advance: requests turn, a sixteenth late", []step{
			{0, "a"},
			{18062, "b"},
			{18062, "t0"},
			{18063, "B"},
			{18063, "t1"},
			{18063, "?a"},
			{36125, "B"},
			{36125, "t1"},
			{36126, "B"},
			{36126, "t2"},
			{36126, "!a"},
			{36126, "a"},
		}},
		{"marked just before a request turns late, then silence until the next turn", []step{
			{18062, "a"}, {18062, "t0"}, {34000, "b"}, {34062, "?a"}, {34062, "A"},
		}},
		{"the request that turns is judged after the turn", []step{{0, "a"}, {17000, "+"}, {35063, "a"}, {35063, "t2"}}},

		{"a long gap turns once", []step{
			{0, "a"}, {1000e3, "+"}, {1000e3, "t1"}, {1000e3, "?a"}, {1016e3, "+"}, {1016e3, "t1"}, {1017e3, "+"}, {1017e3, "!a"},
		}},
		{"a long gap that a request ends", []step{{0, "a"}, {1000e3, "b"}, {1000e3, "t1"}, {1000e3, "A"}}},

		{"a step back within the period changes nothing", []step{
			{10000, "a"}, {0, "+"}, {2000, "A"}, {16999, "+"}, {16999, "t0"}, {17000, "+"}, {17000, "t1"},
		}},
		{"a step back before the period begins a new one", []step{
			{16000, "a"},
			{17000, "+"},
			{17000, "t1"},
			{-100e3, "+"},
			{-100e3, "t1"},
			{-100e3, "?a"},
			{-100e3, "A"},
			{-83001, "+"},
			{-83001, "t1"},
			{-83000, "+"},
			{-83000, "t2"},
			{-83000, "?a"},
			{-66000, "+"},
			{-66000, "!a"},
		}},
		{"a step back without Advance only remembers longer", []step{
			{16000, "a"}, {-100e3, "A"}, {-80e3, "A"}, {-80e3, "t0"}, {17000, "+"}, {17000, "t1"}, {17000, "?a"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFilter(t, 1024, 0)
			a, b := key(1), key(2)
			for i, s := range tt.steps {
				now, ok := s.at*time.Millisecond, true
				switch s.op {
				case "a":
					ok = f.FirstSeen(a, now)
				case "A":
					ok = !f.FirstSeen(a, now)
				case "b":
					ok = f.FirstSeen(b, now)
				case "B":
					ok = !f.FirstSeen(b, now)
				case "?a":
					ok = f.Known(a)
				case "!a":
					ok = !f.Known(a)
				case "+":
					f.Advance(now)
				default:
					ok = f.epoch.Load() == uint64(s.op[1]-'0')
				}
				if !ok {
					t.Fatalf("step %d at %v: %q does not hold; %d turns", i, now, s.op, f.epoch.Load())
				}
			}
		})
	}
}

// TestRemembered: a mark made at any time is remembered for W, and forgotten
// after two periods and the lateness of two turns, whoever turns.
func TestRemembered(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{
		time.Millisecond * 100, time.Second, testPeriod / 16, 3 * time.Second, testWindow / 2, testPeriod - 1, testPeriod, 2 * testPeriod, 5 * testWindow,
	} {
		for _, inline := range []bool{false, true} {
			late := every
			if inline {
				late += testPeriod / 16
			}
			rng := rand.New(rand.NewPCG(uint64(every), 1))
			for range 30 {
				f := newFilter(t, 1024, 0)
				marked := rng.Int64N(int64(4 * testPeriod))
				seen, forgotten := false, time.Duration(-1)
				for now := time.Duration(0); now < 7*testPeriod+8*late; now += every {
					if inline {
						f.FirstSeen(key(2), now)
					} else {
						f.Advance(now)
					}
					if !seen && now >= time.Duration(marked) {
						seen, marked = true, int64(now)
						f.FirstSeen(key(1), now)
					}
					if seen && !f.Known(key(1)) {
						forgotten = now - time.Duration(marked)
						break
					}
				}
				if longest := 2*testPeriod + 2*late; forgotten < testWindow || forgotten > longest {
					t.Errorf("calls every %v, inline %v: marked at %v, forgotten after %v, want %v to %v",
						every, inline, time.Duration(marked), forgotten, testWindow, longest)
				}
			}
		}
	}
}

// TestEndOfTime: near the last time.Duration no sum wraps: what is known stays
// known.
func TestEndOfTime(t *testing.T) {
	t.Parallel()
	for _, before := range []time.Duration{0, 1, testPeriod - 1, testPeriod, testPeriod + 1, 3 * testPeriod} {
		f := newFilter(t, 1024, math.MaxInt64-before-testPeriod)
		now := math.MaxInt64 - before
		if !f.FirstSeen(key(1), now) {
			t.Fatalf("%v before the end: known from the start", before)
		}
		for range 5 {
			f.Advance(now)
			if f.FirstSeen(key(1), now) {
				t.Errorf("%v before the end: forgotten after %d turns", before, f.epoch.Load())
			}
		}
		f.FirstSeen(key(2), math.MaxInt64)
		if turns := f.epoch.Load(); turns > 2 {
			t.Errorf("%v before the end: %d turns in two periods", before, turns)
		}
	}
}

// TestSaturated: a full filter knows everybody: its failure is that nothing
// passes by it. The next two turns bring it back.
func TestSaturated(t *testing.T) {
	t.Parallel()
	f := newFilter(t, 16, 0)
	for i := range 10_000 {
		f.FirstSeen(key(i), 0)
	}
	if n := f.Clients(); n != math.MaxUint32 {
		t.Errorf("a saturated filter counts %d clients", n)
	}
	for i := range 1000 {
		if f.FirstSeen(key(1e6+i), 0) {
			t.Fatal("a saturated filter finds a client new")
		}
	}
	f.Advance(testPeriod)
	f.Advance(2 * testPeriod)
	if !f.FirstSeen(key(1), 2*testPeriod) {
		t.Error("after two turns without a request the filter still knows everybody")
	}
}

func TestClients(t *testing.T) {
	t.Parallel()
	const n = 5000
	f := newFilter(t, 1<<12, 0)
	for i := range n {
		f.FirstSeen(key(i), 0)
		f.FirstSeen(key(i), 0)
	}
	if got := float64(f.Clients()); math.Abs(got-n) > 0.06*n {
		t.Errorf("Clients = %v of %d", got, n)
	}
	f.Advance(testPeriod)
	if got := f.Clients(); got != 0 {
		t.Errorf("Clients = %d in a new period", got)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		w     time.Duration
		words int
		ok    bool
	}{
		{0, 64, false},
		{-time.Second, 64, false},
		{math.MaxInt64, 64, false},
		{maxWindow + 1, 64, false},
		{time.Second, 0, false},
		{1, 1, true},
		{time.Second, 64, true},
		{maxWindow, 1, true},
	} {
		f, err := New(tt.w, tt.words, time.Hour)
		if (err == nil) != tt.ok {
			t.Errorf("New(%v, %d): error %v", tt.w, tt.words, err)
		}
		if err != nil {
			continue
		}
		if !f.FirstSeen(key(1), time.Hour) || f.FirstSeen(key(1), time.Hour) {
			t.Errorf("New(%v, %d): a client is not seen once", tt.w, tt.words)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	f := newFilter(t, 64, 0)
	d := key(1)
	var now time.Duration
	for name, op := range map[string]func(){
		"FirstSeen": func() { f.FirstSeen(d, now) },
		"Known":     func() { f.Known(d) },
		"Advance":   func() { f.Advance(now) },
	} {
		// A second for each call: turns are among them.
		if n := testing.AllocsPerRun(100, func() { now += time.Second; op() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkFirstSeen(b *testing.B) {
	f := newFilter(b, 1<<16, 0)
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		d := key(1)
		for b.Loop() {
			f.FirstSeen(d, 0)
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		d := sketch.Digest{}
		var now time.Duration
		for b.Loop() {
			now += 100 * time.Microsecond // 170,000 clients in a period
			d.ID += 0x9e3779b97f4a7c15
			f.FirstSeen(d, now)
		}
	})
}

// TestKnowEverybody: nobody is first seen for a window, and everybody again
// after it who has not been seen.
func TestKnowEverybody(t *testing.T) {
	t.Parallel()
	f, err := New(testWindow, 64, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.KnowEverybody()
	seen, unseen := key(1), key(2)
	for now := time.Duration(0); now < testWindow; now += testWindow / 8 {
		if f.FirstSeen(seen, now) || !f.Known(unseen) {
			t.Fatalf("first seen at %v", now)
		}
	}
	f.Advance(2 * testWindow)
	if f.FirstSeen(seen, 2*testWindow) || !f.FirstSeen(unseen, 2*testWindow) {
		t.Error("want the one that was seen to be known, and the other one not")
	}
	if n := f.Clients(); n > 2 {
		t.Errorf("%d clients", n)
	}
}
