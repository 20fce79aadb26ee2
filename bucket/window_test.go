package bucket

import (
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/sketch"
)

func mustWindow(tb testing.TB, n uint64, per time.Duration) Shape {
	tb.Helper()
	s, err := NewWindow(n, per)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestNewWindow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n     uint64
		per   time.Duration
		wrong string
	}{
		{1, time.Second, ""},
		{MaxWindowUnits, MaxPeriod, ""},
		{100, 1500 * time.Millisecond, ""},
		{0, time.Minute, "0 admits nothing"},
		{MaxWindowUnits + 1, time.Minute, "4294967296 units in a window are too many"},
		{1, time.Second - 1, "a window of 999.999999ms"},
		{1, MaxPeriod + time.Second, "a window of 8784h0m1s"},
		{1, -time.Second, "a window of -1s"},
		{1, time.Second + 1, "period 1.000000001s is not whole microseconds"},
	} {
		s, err := NewWindow(tt.n, tt.per)
		all := field.All(err)
		switch {
		case tt.wrong == "":
			if err != nil || s.Algorithm() != FixedWindow || s.Period() != tt.per || s.Limit() != tt.n || !s.Portable() || s.WithSlack(time.Hour) != s {
				t.Errorf("%d per %v: %+v, %v", tt.n, tt.per, s, err)
			}
		case len(all) != 1 || all[0].Field != "Rate" || all[0].Problem != tt.wrong || all[0].Fix == "":
			t.Errorf("%d per %v: %v, want %q", tt.n, tt.per, err, tt.wrong)
		}
	}
}

// Windows begin at multiples of their period since 1970, and end where the next
// one begins.
func TestWindowsAreAligned(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		per        time.Duration
		at         string
		begin, end string
	}{
		{24 * time.Hour, "2026-11-22T23:59:59.999999Z", "2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z"},
		{time.Hour, "2026-11-22T15:00:00Z", "2026-11-22T15:00:00Z", "2026-11-22T16:00:00Z"},
		{7 * time.Second, "1970-01-01T00:00:13.9Z", "1970-01-01T00:00:07Z", "1970-01-01T00:00:14Z"},
		{366 * 24 * time.Hour, "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "1971-01-02T00:00:00Z"},
		{time.Second, "2105-12-31T23:59:59.5Z", "2105-12-31T23:59:59Z", "2106-01-01T00:00:00Z"},
	} {
		s, at := mustWindow(t, 5, tt.per), parseTime(t, tt.at)
		ticks := s.WindowTicks(at)
		begin := time.Duration(s.Window(ticks)) * tt.per
		retry, empty := s.Waits(ticks+5, ticks, at, 1)
		if begin != parseTime(t, tt.begin) || max(at, 0)+retry != parseTime(t, tt.end) && at >= 0 || empty != retry {
			t.Errorf("%v at %s: from %v, %v to wait, %v until empty", tt.per, tt.at, begin, retry, empty)
		}
	}
	s := mustWindow(t, 1, time.Second)
	if retry, _ := s.Waits(math.MaxUint64, 0, 0, 1); retry <= 0 {
		t.Error("the end of the last window is before 1970")
	}
}

func parseTime(t *testing.T, text string) time.Duration {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(at.UnixNano())
}

func TestWindowStates(t *testing.T) {
	t.Parallel()
	s := mustWindow(t, 5, time.Second)
	at := func(window, count uint64) uint64 { return window<<32 | count }
	now := at(7, 0)
	for _, tt := range []struct {
		state                           uint64
		level, remaining                uint64
		add2, sub2, settled2, exhausted uint64
		fits, drained                   bool
	}{
		{0, 0, 5, at(7, 2), 0, at(7, 2), at(7, 5), true, true},
		{at(6, 5), 0, 5, at(7, 2), at(6, 5), at(7, 2), at(7, 5), true, true},
		{at(7, 0), 0, 5, at(7, 2), at(7, 0), at(7, 2), at(7, 5), true, true},
		{at(7, 3), 3, 2, at(7, 5), at(7, 1), at(7, 5), at(7, 5), true, false},
		{at(7, 4), 4, 1, at(7, 6), at(7, 2), at(7, 6), at(7, 5), false, false},
		{at(7, 9), 9, 0, at(7, 11), at(7, 7), at(7, 11), at(7, 9), false, false}, // as after a fallback
		{at(8, 3), 3, 2, at(8, 5), at(8, 1), at(8, 3), at(8, 5), true, false},    // overtaken at the edge
		{at(7, countMask), countMask, 0, at(8, 1), at(7, countMask-2), at(7, countMask), at(7, countMask), false, false},
	} {
		if got := s.Level(tt.state, now); got != tt.level {
			t.Errorf("%x: level %d, want %d", tt.state, got, tt.level)
		}
		if got := s.Fits(tt.state, now, 2); got != tt.fits {
			t.Errorf("%x: fits %t", tt.state, got)
		}
		if got := s.Remaining(tt.state, now); got != tt.remaining {
			t.Errorf("%x: remaining %d, want %d", tt.state, got, tt.remaining)
		}
		if got := Add(tt.state, now, 2); got != tt.add2 {
			t.Errorf("%x: %x with two more, want %x", tt.state, got, tt.add2)
		}
		if got := s.Sub(tt.state, now, 2); got != tt.sub2 {
			t.Errorf("%x: %x with two given back, want %x", tt.state, got, tt.sub2)
		}
		if got := s.settle(tt.state, now, 2); got != tt.settled2 {
			t.Errorf("%x: %x with two of the store's, want %x", tt.state, got, tt.settled2)
		}
		if got := s.exhausted(tt.state, now, 2); got != tt.exhausted {
			t.Errorf("%x: exhausted to %x, want %x", tt.state, got, tt.exhausted)
		}
		if got := tt.state <= now; got != tt.drained {
			t.Errorf("%x: drained %t", tt.state, got)
		}
	}
}

// A table of windows is a map from client and window to a count, with readings
// that others have overtaken counted in the window that is current.
func TestWindowTableIsAMap(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(14, 6))
	for range 50 {
		shape := mustWindow(t, 1+rng.Uint64N(8), time.Second)
		table, err := NewTable(shape, 64)
		if err != nil {
			t.Fatal(err)
		}
		keys := clients(rng, 40, rng.Uint64)
		type state struct{ window, count uint64 }
		model := map[sketch.Digest]state{}
		window := uint64(1_763_596_800)
		for range 3000 {
			if rng.IntN(50) == 0 {
				window += 1 + rng.Uint64N(3)
			}
			d, read := keys[rng.IntN(len(keys))], window
			m := model[d]
			// Overtaken. What is drained may have made room for others already.
			if rng.IntN(10) == 0 && (m.window == window && m.count > 0 || m == state{}) {
				read--
			}
			if m.window < read {
				m = state{window: read}
			}
			now, n := read<<32, 1+rng.Uint64N(shape.Limit()+1)
			want := m
			switch rng.IntN(5) {
			case 0:
				if got := table.Refund(d, now, n); m.window == model[d].window {
					if want.count -= min(n, want.count); want.count == 0 {
						want.window = read // empty as of the refund
					}
					if shape.Level(got, now) != want.count {
						t.Fatalf("%d after a refund, want %d", shape.Level(got, now), want.count)
					}
				}
			case 1:
				got, ok := table.TakeCounted(d, now, n)
				fits := m.count+n <= shape.Limit()
				if want.count += n; !fits {
					want.count = max(m.count, shape.Limit())
				}
				if ok != fits || got != want.window<<32|want.count {
					t.Fatalf("counted take of %d of %d on %+v: %x, %t, want %+v", n, shape.Limit(), m, got, ok, want)
				}
			default:
				got, ok := table.Take(d, now, n)
				if fits := m.count+n <= shape.Limit(); ok != fits {
					t.Fatalf("take of %d of %d on %+v: %t", n, shape.Limit(), m, ok)
				}
				if ok {
					want.count += n
				}
				if shape.Level(got, now) != want.count {
					t.Fatalf("level %d, want %d", shape.Level(got, now), want.count)
				}
			}
			if want.count > 0 || model[d].window >= read {
				model[d] = want
			}
			if got := table.Lookup(d); got > now && got != want.window<<32|want.count {
				t.Fatalf("the table holds %x, want %+v", got, want)
			}
		}
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	table, err := NewTable(mustWindow(t, 5, time.Minute), 64)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := table.Share(mustWindow(t, 9, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	d, now := sketch.Digest{Pos: 1 << 40, ID: 7}, uint64(9)<<32
	table.Take(d, now, 5)
	if _, ok := table.Take(d, now, 1); ok {
		t.Error("6 of 5")
	}
	if tat, ok := wide.Take(d, now, 4); !ok || wide.shape.Level(tat, now) != 9 || table.Lookup(d) != tat {
		t.Errorf("4 more of 9: %x, %t", tat, ok)
	}
	leaky, err := NewShape(9, time.Minute, 9)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []Shape{mustWindow(t, 9, time.Hour), leaky} {
		if _, err := table.Share(other); err == nil || !strings.Contains(err.Error(), "want one period") {
			t.Errorf("shared with %v of %v: %v", other.Algorithm(), other.Period(), err)
		}
	}
}

var manyKeys = flag.Int("keys", testkit.Size(200_000, 1_000_000), "keys of TestManyLimits, of which 100000000 are the full size")

// 100,000 limits of one period share a table, and every key is new: its memory
// stays as it was, what it gives up is counted, and a client that keeps asking is
// kept to its own limit meanwhile.
func TestManyLimits(t *testing.T) {
	const limits, sets = 100_000, 1 << 14
	table, err := NewTable(mustWindow(t, 1, time.Hour), sets)
	if err != nil {
		t.Fatal(err)
	}
	shared := make([]Table, limits)
	for i := range shared {
		if shared[i], err = table.Share(mustWindow(t, uint64(1+i%1000), time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(14, 7))
	const now = uint64(490_000) << 32
	hot, hotTable, admitted := sketch.Digest{Pos: rng.Uint64(), ID: rng.Uint64()}, &shared[499], 0
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	rss := residentKiB()
	for i := range *manyKeys {
		shared[i%limits].Take(sketch.Digest{Pos: rng.Uint64(), ID: rng.Uint64()}, now, 1)
		if _, ok := hotTable.Take(hot, now, 1); ok {
			admitted++
		}
	}
	runtime.ReadMemStats(&after)
	t.Logf("%d keys: %d evictions, %d units forgiven, resident %d KiB before and %d after", *manyKeys, table.Evictions(), table.Forgiven(), rss, residentKiB())
	if n := after.Mallocs - before.Mallocs; n > 1000 {
		t.Errorf("%d allocations for %d keys", n, *manyKeys)
	}
	if grown := residentKiB() - rss; grown > 8<<10 {
		t.Errorf("resident memory has grown by %d KiB", grown)
	}
	if admitted != 500 {
		t.Errorf("%d admitted of a limit of 500", admitted)
	}
	held := uint64(0)
	for x := range table.sets {
		for i := range table.sets[x] {
			if table.sets[x][i].tat > now {
				held++
			}
		}
	}
	if want := uint64(*manyKeys) + 1 - held; table.Evictions() != want || table.Forgiven() < want {
		t.Errorf("%d evictions and %d units, want %d of %d keys with %d held", table.Evictions(), table.Forgiven(), want, *manyKeys, held)
	}
}

// residentKiB is the resident memory of this process, 0 where the system does not
// say.
func residentKiB() (kib int) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			for _, c := range strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")) {
				kib = kib*10 + int(c-'0')
			}
		}
	}
	return kib
}
