package bucket

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/frames"
	"github.com/fastlimit/fastlimit/sketch"
)

// bucketOf is a bucket of 100 that leaks one unit in a period.
func bucketOf(t *testing.T, per time.Duration) Shape {
	t.Helper()
	s, err := NewShape(1, per, 100)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pieces is all that a saving writes.
func pieces(t *Table, now uint64) (all [][]byte) {
	s := t.Save(now)
	for more := true; more; {
		var b []byte
		b, more = s.Append(nil)
		all = append(all, b)
	}
	return all
}

// TestStateOfAFullTable: a table that is as full as can be, with buckets away from home,
// holds all of them again, and lookups find them.
func TestStateOfAFullTable(t *testing.T) {
	t.Parallel()
	log := mustLog(t, 7, time.Hour)
	for _, shape := range []Shape{bucketOf(t, time.Minute), mustSliding(t, 100, time.Hour), log} {
		rng := rand.New(rand.NewPCG(1, 50))
		const sets = 1 << 12
		var table, again Table
		if table.Init(shape, sets) != nil || again.Init(shape, sets) != nil {
			t.Fatal("cannot be made")
		}
		now := uint64(1) << 56
		var all []sketch.Digest
		for range table.Buckets() {
			d := sketch.Digest{Pos: rng.Uint64(), ID: rng.Uint64()}
			for range 1 + rng.IntN(3) {
				table.Take(d, now, shape.Cost(1))
			}
			all = append(all, d)
		}
		away := 0
		for x := range table.sets {
			away += int(table.awayOf(uint64(x)))
		}
		if away == 0 || table.Evictions() > 0 {
			t.Fatalf("%d buckets away from home, %d given up: it shows little", away, table.Evictions())
		}
		parts := pieces(&table, now)
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		for _, p := range append(parts, parts[0]) { // one of them twice
			if err := again.RestoreState(p); err != nil {
				t.Fatal(err)
			}
		}
		for _, d := range all {
			if was, is := table.Lookup(d), again.Lookup(d); was != is {
				t.Fatalf("%v: %d, and was %d", d, is, was)
			}
			after, ok := table.Take(d, now, shape.Cost(5))
			if after2, ok2 := again.Take(d, now, shape.Cost(5)); after2 != after || ok2 != ok {
				t.Fatalf("%v: a take has %d, %v, and had %d, %v", d, after2, ok2, after, ok)
			}
		}
		if a, b := table.Live(now, 1<<20), again.Live(now, 1<<20); a != b || len(parts) < 3 {
			t.Errorf("%v of it live, and were %v, in %d pieces", b, a, len(parts))
		}
	}
}

// TestStateTwice: a bucket that was read in both of its sets, as it moved meanwhile, is there
// once and is the fuller one, whichever comes first.
func TestStateTwice(t *testing.T) {
	t.Parallel()
	shape, d := bucketOf(t, time.Second), sketch.Digest{Pos: 5 << 30, ID: 77}
	for _, homeFirst := range []bool{false, true} {
		var table Table
		if table.Init(shape, 1<<10) != nil {
			t.Fatal("cannot be made")
		}
		home := table.index(d)
		entry := func(guest bool, level uint64) []byte {
			x, place := home, uint64(0)
			if guest {
				x, place = table.other(home, d.ID), 1
			}
			b := binary.AppendUvarint(binary.AppendUvarint(nil, 1000), x<<3|place)
			return binary.AppendUvarint(binary.LittleEndian.AppendUint64(b, d.ID), level)
		}
		both := [][]byte{entry(true, 50), entry(false, 40)}
		if homeFirst {
			both[0], both[1] = both[1], both[0]
		}
		for _, p := range both {
			if err := table.RestoreState(p); err != nil {
				t.Fatal(err)
			}
		}
		if got := table.Lookup(d); got != 1050 {
			t.Errorf("home first %v: %d", homeFirst, got)
		}
		table.Reset(d)
		if got := table.Lookup(d); got != 0 {
			t.Errorf("home first %v: %d after a reset", homeFirst, got)
		}
	}
}

// TestStateWithoutMeaning: places and levels that cannot be are errors, and never panics.
func TestStateWithoutMeaning(t *testing.T) {
	t.Parallel()
	var table Table
	if table.Init(bucketOf(t, time.Second), 8) != nil {
		t.Fatal("cannot be made")
	}
	entry := func(place, level uint64) []byte {
		return binary.AppendUvarint(binary.LittleEndian.AppendUint64(binary.AppendUvarint([]byte{1}, place), 9), level)
	}
	for what, p := range map[string][]byte{
		"a set that there is not": entry(100<<3, 1), "far away": entry(1<<63, 1), "a level that overflows": entry(0, 1<<63),
		"half of an entry": entry(0, 1)[:7],
	} {
		if err := table.RestoreState(p); !errors.Is(err, frames.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestSavedWhileMoving: what a table held when a saving began is in it, although it is as full
// as can be and buckets move all the time.
func TestSavedWhileMoving(t *testing.T) {
	t.Parallel()
	log := mustLog(t, 7, 24*time.Hour)
	for _, shape := range []Shape{bucketOf(t, 24*time.Hour), log} {
		const sets, now = 1 << 11, uint64(1) << 56
		var table Table
		if err := table.Init(shape, sets); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(2, 51))
		var stay []sketch.Digest
		for range table.Buckets() * 9 / 10 {
			d := sketch.Digest{Pos: rng.Uint64(), ID: rng.Uint64()}
			table.Take(d, now, shape.Cost(1))
			stay = append(stay, d)
		}
		var stop atomic.Bool
		var rounds atomic.Uint64
		var wg sync.WaitGroup
		for g := range uint64(2) {
			wg.Go(func() { // others come and go, so that buckets make room for them
				rng := rand.New(rand.NewPCG(3, g))
				for !stop.Load() {
					var some [20]sketch.Digest
					for i := range some {
						some[i] = sketch.Digest{Pos: rng.Uint64(), ID: rng.Uint64()}
						table.Take(some[i], now, shape.Cost(1))
					}
					for _, d := range some {
						table.Reset(d)
					}
					rounds.Add(1)
				}
			})
		}
		moved, enough := 0, 100
		if testing.Short() { // the race detector makes each save ten times as long
			enough = 20
		}
		for turn := 0; turn < 20 || moved < enough && turn < 2000; turn++ {
			s := table.Save(now)
			var parts [][]byte
			for more := true; more; {
				var b []byte
				was := s.next
				b, more = s.Append(nil)
				if parts = append(parts, b); s.next == was && len(b) > 10 && more {
					moved++
				}
				for before := rounds.Load(); more && rounds.Load() < before+2; { // some move between any two parts
					runtime.Gosched()
				}
			}
			var again Table
			if err := again.Init(shape, sets); err != nil {
				t.Fatal(err)
			}
			for _, p := range parts {
				if err := again.RestoreState(p); err != nil {
					t.Fatal(err)
				}
			}
			missed := 0
			for _, d := range stay {
				if again.Lookup(d) == 0 {
					missed++
				}
			}
			if missed > int(again.Evictions()+table.Evictions()) {
				t.Errorf("turn %d: %d of %d are missed", turn, missed, len(stay))
			}
		}
		stop.Store(true)
		wg.Wait()
		if moved < enough || table.saves.n.Load() != 0 || table.Evictions() > 0 {
			t.Errorf("%d moved, %d savings go on, %d given up: it shows little", moved, table.saves.n.Load(), table.Evictions())
		}
	}
}

// TestStateOfTwoInOnePlace: a bucket whose place is taken, as it moved meanwhile, gets another
// one; where both of its sets are full the lowest is given up.
func TestStateOfTwoInOnePlace(t *testing.T) {
	t.Parallel()
	shape := bucketOf(t, time.Second)
	var table Table
	if table.Init(shape, 1<<10) != nil {
		t.Fatal("cannot be made")
	}
	entries := func(ids ...uint64) []byte {
		b := binary.AppendUvarint(nil, 1000)
		for i, id := range ids {
			place := uint64(0)
			if i == 0 {
				place = 7 << 3
			}
			b = binary.AppendUvarint(binary.LittleEndian.AppendUint64(binary.AppendUvarint(b, place), id), 10*id)
		}
		return b
	}
	for _, id := range []uint64{1, 2, 3, 4} {
		if err := table.RestoreState(entries(id)); err != nil || table.findLocked(7, id) < 0 {
			t.Fatalf("%d: %v", id, err)
		}
	}
	if err := table.RestoreState(entries(5)); err != nil || table.findLocked(7, 5) >= 0 || table.findLocked(table.other(7, 5), 5) < 0 || table.Evictions() != 0 {
		t.Fatalf("the fifth: %v", err)
	}
	x := table.other(7, 6)
	for i := range table.sets[x] {
		table.enterLocked(x, x, i, uint64(100+i), 1<<20)
	}
	if err := table.RestoreState(entries(6)); err != nil || table.findLocked(7, 6) < 0 || table.findLocked(7, 1) >= 0 || table.Evictions() != 1 {
		t.Errorf("the sixth: %v, %d given up", err, table.Evictions())
	}
}

// A state with a place that the table does not have, or with a level that no clock reaches, is refused.
func TestStateOutOfBounds(t *testing.T) {
	t.Parallel()
	shape := bucketOf(t, time.Second)
	last := uint64(len(tableOf(t, shape).sets)) - 1
	type entry struct{ sets, id, level uint64 }
	for _, tt := range []struct {
		name    string
		now     uint64
		entries []entry
		ok      bool
	}{
		{"a level above the clock", 1000, []entry{{7, 1, 5000}}, true},
		{"the highest level", 0, []entry{{7, 1, maxStored}}, true},
		{"a higher level", 0, []entry{{7, 1, maxStored + 1}}, false},
		{"the last time", math.MaxUint64 - 9, []entry{{7, 1, 9}}, true},
		{"a later time", math.MaxUint64 - 9, []entry{{7, 1, 20}}, false},
		{"no level", 0, []entry{{7, 1, 0}}, false},
		{"the last set", 1000, []entry{{last - 4, 1, 5}, {4, 2, 5}}, true},
		{"the set behind it", 1000, []entry{{last - 4, 1, 5}, {5, 2, 5}}, false},
		{"a set of its own behind it", 1000, []entry{{last + 1, 1, 5}}, false},
		{"sets that overflow", 1000, []entry{{7, 1, 5}, {1<<61 - 1, 2, 5}}, false},
	} {
		table := tableOf(t, shape)
		b := binary.AppendUvarint(nil, tt.now)
		for _, e := range tt.entries {
			b = binary.AppendUvarint(binary.LittleEndian.AppendUint64(binary.AppendUvarint(b, e.sets<<3), e.id), e.level)
		}
		if err := table.RestoreState(b); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
