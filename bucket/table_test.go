package bucket

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/fastlimit/fastlimit/sketch"
)

// newTable has buckets of 1/h and burst 20. T is 3.6·10^9 ticks, so that random
// TATs hardly ever agree and it is clear which bucket is given up.
func newTable(tb testing.TB, sets int) *Table {
	tb.Helper()
	shape, err := NewShape(1, time.Hour, 20)
	if err != nil {
		tb.Fatal(err)
	}
	t, err := NewTable(shape, sets)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// model is the table as maps: for each set the undrained buckets, at most 4.
type model struct {
	sets      []map[uint64]uint64 // ID → TAT
	evictions uint64
}

func newModel(sets int) *model {
	m := &model{sets: make([]map[uint64]uint64, sets)}
	for i := range m.sets {
		m.sets[i] = map[uint64]uint64{}
	}
	return m
}

// put stores a bucket, giving up drained ones and then the lowest.
func (m *model) put(set, id, tat, now uint64) {
	s := m.sets[set]
	for other, t := range s {
		if t <= now {
			delete(s, other)
		}
	}
	if _, ok := s[id]; !ok && len(s) == ways {
		lowest, least := uint64(0), ^uint64(0)
		for other, t := range s {
			if t < least {
				lowest, least = other, t
			}
		}
		delete(s, lowest)
		m.evictions++
	}
	s[id] = tat
}

// clients are keys of several sets whose IDs include 0 and a few that differ
// in one bit; their IDs are otherwise random, as those of a keyed hash.
func clients(rng *rand.Rand, n int, pos func() uint64) []sketch.Digest {
	ds := make([]sketch.Digest, n)
	for i := range ds {
		ds[i] = sketch.Digest{Pos: pos(), ID: rng.Uint64()}
	}
	ds[0].ID, ds[1].ID, ds[2].ID = 0, 1, ds[3].ID^1<<63
	return ds
}

// TestTableModel runs random operations against the model: many clients in few
// sets, so that buckets are given up; sets of their own; all in one set.
func TestTableModel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		sets, clients int
		pause         float64 // largest pause between operations, in T
		spread        bool
	}{
		{"roomy", 512, 100, 0.3, true},
		{"crowded", 8, 100, 0.1, true},
		{"few, often drained", 4, 20, 4, true},
		{"one set", 1, 12, 0.3, true},
		{"one set for all of many", 64, 8, 0.3, false},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s/%d", tt.name, seed), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(seed, 77))
				pos := rng.Uint64
				if !tt.spread {
					pos = func() uint64 { return 0xabcdef0123456789 }
				}
				runTableModel(t, rng, newTable(t, tt.sets), clients(rng, tt.clients, pos), tt.pause)
			})
		}
	}
}

func runTableModel(t *testing.T, rng *rand.Rand, tb *Table, ds []sketch.Digest, pause float64) {
	m := newModel(len(tb.sets))
	now := uint64(1 << 50)
	for step := range 60_000 {
		now += uint64(rng.Float64() * pause * float64(tb.shape.Unit()))
		d := ds[rng.IntN(len(ds))]
		set := tb.index(d)
		held := m.sets[set][d.ID] // 0 if absent
		cost := tb.shape.Cost(rng.Uint64N(4))
		switch op := rng.IntN(20); op {
		case 0:
			tb.Reset(d)
			delete(m.sets[set], d.ID)
		case 1, 2:
			got := tb.Refund(d, now, cost)
			if want := Refund(held, now, cost); Level(got, now) != Level(want, now) {
				t.Fatalf("step %d: Refund = %d, want %d", step, got, want)
			}
			if held > now {
				m.sets[set][d.ID] = Refund(held, now, cost)
			}
		case 3:
			parts := 1 + rng.IntN(4)
			tb.Sweep(now, rng.IntN(parts), parts)
		case 4:
			tat := now + rng.Uint64N(tb.shape.Limit()) - 100
			tb.Settle(d, now, cost, tat)
			if cost > 0 {
				tat = max(tat, Add(held, now, cost))
			}
			if tat > max(now, held) {
				m.put(set, d.ID, tat, now)
			}
		default:
			cost += rng.Uint64N(tb.shape.Unit() / 10)
			tat, ok := tb.Take(d, now, cost)
			if want := tb.shape.Fits(held, now, cost); ok != want {
				t.Fatalf("step %d: Take = %v with level %d and cost %d", step, ok, Level(held, now), cost)
			}
			if ok {
				held = Add(held, now, cost)
				m.put(set, d.ID, held, now)
			}
			if Level(tat, now) != Level(held, now) {
				t.Fatalf("step %d: level %d after Take, want %d", step, Level(tat, now), Level(held, now))
			}
		}
		for _, d := range []sketch.Digest{d, ds[rng.IntN(len(ds))]} {
			if got, want := Level(tb.Lookup(d), now), Level(m.sets[tb.index(d)][d.ID], now); got != want {
				t.Fatalf("step %d: ID %#x has level %d, want %d", step, d.ID, got, want)
			}
		}
	}
	if got := tb.Evictions(); got != m.evictions {
		t.Errorf("%d evictions, want %d", got, m.evictions)
	}
	live := 0
	for _, s := range m.sets {
		for _, tat := range s {
			if tat > now {
				live++
			}
		}
	}
	if got, want := tb.Live(now, len(tb.sets)), float64(live)/float64(tb.Buckets()); got != want {
		t.Errorf("Live = %v, want %v", got, want)
	}
}

// TestEviction traces one set: drained buckets go first, uncounted, then the
// one with the lowest level.
func TestEviction(t *testing.T) {
	t.Parallel()
	tb := newTable(t, 1)
	at := func(id uint64) sketch.Digest { return sketch.Digest{ID: id * 0x9e3779b97f4a7c15} }
	const now = 1 << 50
	unit := tb.shape.Unit()
	for i, units := range []uint64{5, 2, 9, 4} {
		tb.Take(at(uint64(i+1)), now, units*unit)
	}
	holds := func(now uint64, want ...uint64) {
		t.Helper()
		var got []uint64
		for id := uint64(1); id < 10; id++ {
			if tb.Lookup(at(id)) > now {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("buckets %v at %d, want %v", got, now, want)
		}
	}
	holds(now, 1, 2, 3, 4)
	tb.Take(at(5), now, 7*unit)
	holds(now, 1, 3, 4, 5) // 2 had the lowest level
	if n := tb.Evictions(); n != 1 {
		t.Errorf("%d evictions, want 1", n)
	}
	later := now + 4*unit // 4 has drained
	tb.Take(at(6), later, unit)
	holds(later, 1, 3, 5, 6)
	if n := tb.Evictions(); n != 1 {
		t.Errorf("%d evictions after a drained bucket gave way, want 1", n)
	}
	if _, ok := tb.Take(at(3), later, 20*unit); ok {
		t.Error("a client that survived the evictions lost its level")
	}
	tb.Reset(at(5))
	tb.Take(at(7), later, unit)
	holds(later, 1, 3, 6, 7) // the reset one gave way
	if n := tb.Evictions(); n != 1 {
		t.Errorf("%d evictions after a reset bucket gave way, want 1", n)
	}
}

// TestIDZero: the ID that unused entries seem to have is one like any other,
// also after a bucket in front of its own was reset.
func TestIDZero(t *testing.T) {
	t.Parallel()
	tb := newTable(t, 1)
	const now = 1 << 50
	zero, other := sketch.Digest{}, sketch.Digest{ID: 0xfeedfacecafebeef}
	if tat := tb.Lookup(zero); tat != 0 {
		t.Fatalf("TAT %d in an empty table", tat)
	}
	tb.Take(other, now, 1000)
	want, _ := tb.Take(zero, now, 5000)
	tb.Reset(other)
	if got := tb.Lookup(zero); got != want {
		t.Errorf("TAT %d after another was reset, want %d", got, want)
	}
	if got, _ := tb.Take(zero, now, 5000); got != want+5000 {
		t.Errorf("TAT %d after a second request, want %d", got, want+5000)
	}
	tb.Reset(zero)
	if got := Level(tb.Lookup(zero), now); got != 0 {
		t.Errorf("level %d after Reset", got)
	}
}

// TestLookupIsReadOnly: a lookup waits for no lock and leaves the table as it
// was.
func TestLookupIsReadOnly(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 5))
	tb := newTable(t, 16)
	ds := clients(rng, 200, rng.Uint64)
	const now = 1 << 50
	for _, d := range ds {
		tb.Take(d, now, 1000+rng.Uint64N(1000))
	}
	sets, used := slices.Clone(tb.sets), slices.Clone(tb.used)
	for i := range tb.locks {
		tb.locks[i].Lock()
	}
	for _, d := range ds {
		tb.Lookup(d)
	}
	for i := range tb.locks {
		tb.locks[i].Unlock()
	}
	if !slices.Equal(tb.sets, sets) || !slices.Equal(tb.used, used) {
		t.Error("Lookup changed the table")
	}
}

// TestDenialWritesNothing: a request that does not fit leaves the entry, the
// used bit and the counters alone.
func TestDenialWritesNothing(t *testing.T) {
	t.Parallel()
	tb := newTable(t, 1)
	d := sketch.Digest{ID: 42}
	const now = 1 << 50
	tb.Take(d, now, tb.shape.Limit())
	sets, used := slices.Clone(tb.sets), slices.Clone(tb.used)
	if tat, ok := tb.Take(d, now, 1); ok || tat != now+tb.shape.Limit() {
		t.Errorf("Take on a full bucket = %d, %v", tat, ok)
	}
	if _, ok := tb.Take(sketch.Digest{ID: 43}, now, tb.shape.Cost(21)); ok {
		t.Error("a request above the burst fits an empty bucket")
	}
	if !slices.Equal(tb.sets, sets) || !slices.Equal(tb.used, used) {
		t.Error("a denial changed the table")
	}
}

// TestSweep: only sets whose buckets have all drained are marked unused, and
// the parts cover all sets.
func TestSweep(t *testing.T) {
	t.Parallel()
	const now = 1 << 50
	for _, sets := range []int{1, 63, 64, 65, 1000} {
		for _, parts := range []int{1, 3, 8, 100} {
			rng := rand.New(rand.NewPCG(uint64(sets), uint64(parts)))
			tb := newTable(t, sets)
			ds := clients(rng, 2*sets+4, rng.Uint64)
			for _, d := range ds {
				tb.Take(d, now, 1+rng.Uint64N(tb.shape.Limit()))
			}
			levels := make([]uint64, len(ds))
			later := now + tb.shape.Limit()/2
			for i, d := range ds {
				levels[i] = Level(tb.Lookup(d), later)
			}
			for part := range parts {
				tb.Sweep(later, part, parts)
			}
			for i, d := range ds {
				if got := Level(tb.Lookup(d), later); got != levels[i] {
					t.Fatalf("%d sets, %d parts: level %d after Sweep, %d before", sets, parts, got, levels[i])
				}
			}
			for x := range uint64(sets) {
				live := slices.ContainsFunc(tb.sets[x][:], func(e entry) bool { return e.tat > later })
				if used := tb.used[x>>6]>>(x&63)&1 != 0; used != live {
					t.Fatalf("%d sets, %d parts: set %d is marked %v and is live: %v", sets, parts, x, used, live)
				}
			}
		}
	}
}

// TestTableLayout: a set is one cache line wherever its memory came from, and
// no two locks share one.
func TestTableLayout(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 7, 100, 1 << 12} {
		tb := newTable(t, n)
		if a := uintptr(unsafe.Pointer(&tb.sets[0])); a%64 != 0 {
			t.Errorf("%d sets begin at %#x, not at a cache line", n, a)
		}
		if got, least := tb.Bytes(), n*64+stripes*64; got < least || got > least+n/8+64 || tb.Buckets() != 4*n {
			t.Errorf("%d sets: %d bytes, %d buckets", n, got, tb.Buckets())
		}
		for i := 1; i < stripes; i++ {
			a, b := uintptr(unsafe.Pointer(&tb.locks[i-1].Mutex)), uintptr(unsafe.Pointer(&tb.locks[i].Mutex))
			if b-a < 64 || a/64 == b/64 {
				t.Fatalf("locks %d and %d at %#x and %#x", i-1, i, a, b)
			}
		}
	}
	for _, n := range []int{0, -1, 1<<32 + 1} {
		if _, err := NewTable(Shape{}, n); err == nil {
			t.Errorf("NewTable with %d sets: no error", n)
		}
	}
}

// TestTableSpreads: sets are chosen evenly, by bits that neither pick the
// block of a sketch nor a subset of its cells.
func TestTableSpreads(t *testing.T) {
	t.Parallel()
	const sets, keys = 48, 480_000
	rng := rand.New(rand.NewPCG(6, 6))
	tb := newTable(t, sets)
	for name, pos := range map[string]func() uint64{
		"all random":          rng.Uint64,
		"one block, one cell": func() uint64 { return 0xabc<<52 | rng.Uint64()>>12&^0xff | 0x15 },
	} {
		var n [sets]float64
		for range keys {
			n[tb.index(sketch.Digest{Pos: pos()})]++
		}
		chi := 0.0
		for _, c := range n {
			chi += (c - keys/sets) * (c - keys/sets) / (keys / sets)
		}
		if chi > sets+6*10 { // mean 47, σ 9.7
			t.Errorf("%s: χ² = %.0f over %d sets", name, chi, sets)
		}
	}
}
