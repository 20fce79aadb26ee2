package bucket

import (
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

// TestEviction traces a table of two sets, which are the candidates of every
// bucket: drained buckets go first, uncounted, then the one with the lowest
// level.
func TestEviction(t *testing.T) {
	t.Parallel()
	tb := newTable(t, 1)
	at := func(id uint64) sketch.Digest { return sketch.Digest{Pos: id << 39, ID: id * 0x9e3779b97f4a7c15} }
	const now = 1 << 50
	unit := tb.shape.Unit()
	for i, units := range []uint64{5, 2, 9, 4, 11, 12, 13, 14} {
		tb.Take(at(uint64(i+1)), now, units*unit)
	}
	holds := func(now, evictions, forgiven uint64, want ...uint64) {
		t.Helper()
		var got []uint64
		for id := uint64(1); id < 20; id++ {
			if tb.Lookup(at(id)) > now {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("buckets %v at %d, want %v", got, now, want)
		}
		if e, f := tb.Evictions(), tb.Forgiven(); e != evictions || f != forgiven {
			t.Errorf("%d evictions of %d units, want %d of %d", e, f, evictions, forgiven)
		}
	}
	holds(now, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8)
	tb.Take(at(9), now, 7*unit)
	holds(now, 1, 2, 1, 3, 4, 5, 6, 7, 8, 9) // 2 had the lowest level
	later := now + 4*unit                    // 4 has drained
	tb.Take(at(10), later, 3*unit)
	holds(later, 1, 2, 1, 3, 5, 6, 7, 8, 9, 10)
	if _, ok := tb.Take(at(3), later, 20*unit); ok {
		t.Error("a client that survived the evictions lost its level")
	}
	tb.Reset(at(5))
	tb.Take(at(11), later, unit)
	holds(later, 1, 2, 1, 3, 6, 7, 8, 9, 10, 11) // the reset one gave way
	tb.Take(at(12), later+1, 20*unit)
	holds(later+1, 2, 3, 3, 6, 7, 8, 9, 10, 11, 12) // 1 had just under one unit left, which counts as one
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
	sets, marks, links := slices.Clone(tb.sets), slices.Clone(tb.marks), slices.Clone(tb.links)
	for i := range tb.locks {
		tb.locks[i].Lock()
	}
	for _, d := range ds {
		tb.Lookup(d)
	}
	for i := range tb.locks {
		tb.locks[i].Unlock()
	}
	if !slices.Equal(tb.sets, sets) || !slices.Equal(tb.marks, marks) || !slices.Equal(tb.links, links) {
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
	sets, marks, links := slices.Clone(tb.sets), slices.Clone(tb.marks), slices.Clone(tb.links)
	if tat, ok := tb.Take(d, now, 1); ok || tat != now+tb.shape.Limit() {
		t.Errorf("Take on a full bucket = %d, %v", tat, ok)
	}
	if _, ok := tb.Take(sketch.Digest{ID: 43}, now, tb.shape.Cost(21)); ok {
		t.Error("a request above the burst fits an empty bucket")
	}
	if !slices.Equal(tb.sets, sets) || !slices.Equal(tb.marks, marks) || !slices.Equal(tb.links, links) {
		t.Error("a denial changed the table")
	}
}

// TestSweep: the marks of a set stay while it holds an undrained bucket, or has
// one elsewhere, and no longer; the parts cover all sets.
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
			check(t, tb, ds, later)
			for part := range parts { // of sets that came before the last bucket that they had elsewhere
				tb.Sweep(later, part, parts)
			}
			for x := range uint64(len(tb.sets)) {
				want := uint64(0)
				if slices.ContainsFunc(tb.sets[x][:], func(e entry) bool { return e.tat > later }) {
					want |= inUse
				}
				if tb.awayOf(x) > 0 {
					want |= spilled
				}
				if got := marksOf(tb, x); got != want {
					t.Fatalf("%d sets, %d parts: set %d has marks %b, want %b", sets, parts, x, got, want)
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
		memory := len(tb.sets)*64 + len(tb.marks)*8 + len(tb.links)*4 + stripes*64
		if got := tb.shape.TableBytes(n) + int(unsafe.Sizeof(*tb.locks)); got != memory || tb.Buckets() != 4*n || len(tb.sets)%2 != 0 || 8*len(tb.sets) < 9*n {
			t.Errorf("%d sets: %d bytes, %d buckets; %d sets were made of %d bytes", n, got, tb.Buckets(), len(tb.sets), memory)
		}
		if share := tb.shape.TableBytes(n); tb.shape.SetsIn(share+share/300+3*setBytes) < n || n > 3 && tb.shape.TableBytes(tb.shape.SetsIn(share)) > share {
			t.Errorf("%d sets take %d bytes, and %d sets fit so many", n, share, tb.shape.SetsIn(share))
		}
		for i := 1; i < stripes; i++ {
			a, b := uintptr(unsafe.Pointer(&tb.locks[i-1].Mutex)), uintptr(unsafe.Pointer(&tb.locks[i].Mutex))
			if b-a < 64 || a/64 == b/64 {
				t.Fatalf("locks %d and %d at %#x and %#x", i-1, i, a, b)
			}
		}
	}
	for _, n := range []int{0, -1, maxSets + 1} {
		if _, err := NewTable(Shape{}, n); err == nil {
			t.Errorf("NewTable with %d sets: no error", n)
		}
	}
}

// TestTableSpreads: sets are chosen evenly, by bits that neither pick the
// block of a sketch nor a subset of its cells.
func TestTableSpreads(t *testing.T) {
	t.Parallel()
	const sets, keys = 54, 540_000
	rng := rand.New(rand.NewPCG(6, 6))
	tb := newTable(t, 48)
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
		if chi > sets+6*10 { // mean 53, σ 10.3
			t.Errorf("%s: χ² = %.0f over %d sets", name, chi, sets)
		}
	}
}

// TestOther: the other set of the other set is the set itself, and never the
// same one, for any even number of sets; and others are spread evenly whatever
// the home, for addresses too, whose ID is their Pos.
func TestOther(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 8))
	for _, n := range []int{1, 2, 3, 5, 47, 48, 1000, 1<<16 + 1} {
		tb := newTable(t, n)
		for range 2000 {
			x, id := rng.Uint64N(uint64(len(tb.sets))), rng.Uint64()
			y := tb.other(x, id)
			if y == x || y >= uint64(len(tb.sets)) || tb.other(y, id) != x {
				t.Fatalf("%d sets: the other of set %d for %#x is %d, whose other is %d", len(tb.sets), x, id, y, tb.other(y, id))
			}
		}
	}
	const keys = 540_000
	tb := newTable(t, 48)
	for name, draw := range map[string]func() sketch.Digest{
		"text":    func() sketch.Digest { return sketch.Digest{Pos: 77 << 32, ID: rng.Uint64()} },
		"address": func() sketch.Digest { v := rng.Uint64(); return sketch.Digest{Pos: v, ID: v} },
		"addresses, one home": func() sketch.Digest {
			v := rng.Uint64()&^0xff_ffff_ff00 | 0x12_3456_7800
			return sketch.Digest{Pos: v, ID: v}
		},
	} {
		n, want := make([]float64, len(tb.sets)), make([]float64, len(tb.sets))
		for range keys {
			d := draw()
			x := tb.index(d)
			n[tb.other(x, d.ID)]++
			for y := range want {
				want[y] += 1 / float64(len(n))
			}
			// A home is never its own other: its share is that of the set
			// half a turn away.
			want[x] -= 1 / float64(len(n))
			want[(x+uint64(len(n))/2)%uint64(len(n))] += 1 / float64(len(n))
		}
		chi := 0.0
		for x, c := range n {
			if want[x] > 0.5 {
				chi += (c - want[x]) * (c - want[x]) / want[x]
			} else if c > 0 {
				t.Errorf("%s: set %d is its own other", name, x)
			}
		}
		if chi > 54+6*10 {
			t.Errorf("%s: χ² = %.0f over %d sets", name, chi, len(n))
		}
	}
}
