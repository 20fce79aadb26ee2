package bucket

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastlimit/fastlimit/sketch"
)

// spill fills the home of the clients it returns and sends the last one to its
// other set.
func spill(t *testing.T, tb *Table, now uint64) []sketch.Digest {
	t.Helper()
	ds := make([]sketch.Digest, ways+1)
	for i := range ds {
		ds[i] = inSet(tb, 3, uint64(i+1)*0x9e3779b97f4a7c15)
		tb.Take(ds[i], now, uint64(ways+1-i)*tb.shape.Unit())
	}
	if tb.awayOf(3) != 1 || marksOf(tb, 3) != inUse|spilled {
		t.Fatalf("%d buckets are away, marks %b", tb.awayOf(3), marksOf(tb, 3))
	}
	return ds
}

// TestSpilled: every operation knows a bucket that is not at home, and when it
// has drained the client comes home.
func TestSpilled(t *testing.T) {
	t.Parallel()
	const now = 1 << 50
	for name, tt := range map[string]struct {
		do   func(tb *Table, d sketch.Digest, later uint64)
		want uint64 // units left at later, half a unit after now
		away uint32
	}{
		"take": {func(tb *Table, d sketch.Digest, now uint64) { tb.Take(d, now, 3*tb.shape.Unit()) }, 3, 1},
		"settle": {func(tb *Table, d sketch.Digest, now uint64) {
			tb.Settle(d, now, tb.shape.Unit(), now+9*tb.shape.Unit())
		}, 9, 1},
		"refund":       {func(tb *Table, d sketch.Digest, now uint64) { tb.Refund(d, now, tb.shape.Unit()/4) }, 0, 1},
		"reset":        {func(tb *Table, d sketch.Digest, _ uint64) { tb.Reset(d) }, 0, 0},
		"a sweep":      {func(tb *Table, _ sketch.Digest, now uint64) { tb.Sweep(now, 0, 1) }, 0, 1},
		"other's take": {func(tb *Table, _ sketch.Digest, now uint64) { tb.Take(inSet(tb, 3, 99), now, 1) }, 0, 2},
	} {
		tb := newTable(t, 8)
		ds := spill(t, tb, now)
		unit, last := tb.shape.Unit(), ds[ways]
		later := now + unit/2
		tt.do(tb, last, later)
		if got := Level(tb.Lookup(last), later) / unit; got != tt.want {
			t.Errorf("%s: level %d units, want %d", name, got, tt.want)
		}
		if got := tb.awayOf(3); got != tt.away {
			t.Errorf("%s: %d buckets are away, want %d", name, got, tt.away)
		}
		check(t, tb, append(ds, inSet(tb, 3, 99)), later)
	}

	tb := newTable(t, 8)
	ds := spill(t, tb, now)
	unit, last := tb.shape.Unit(), ds[ways]
	if _, ok := tb.Take(last, now, 20*unit); ok {
		t.Error("a request that does not fit was admitted")
	}
	later := now + 3*unit // it has drained, and so has one that is at home
	tb.Take(last, later, unit)
	if got := tb.awayOf(3); got != 0 || tb.Lookup(last) != later+unit {
		t.Errorf("%d buckets are away, the TAT is %d", got, tb.Lookup(last))
	}
	check(t, tb, ds, later)
}

// TestMove: a bucket leaves its home and comes back, and does not go where
// there is no room.
func TestMove(t *testing.T) {
	t.Parallel()
	const now = 1 << 50
	tb := newTable(t, 8)
	d := inSet(tb, 5, 0xfeedfacecafebeef)
	x, y := uint64(5), tb.other(5, d.ID)
	want, _ := tb.Take(d, now, 1000)
	for _, step := range [][2]uint64{{x, y}, {y, x}, {x, y}} {
		if !tb.move(step[0], step[1], d.ID, now) {
			t.Fatal("there was room")
		}
		if got := tb.Lookup(d); got != want {
			t.Fatalf("TAT %d after a move from set %d to set %d, want %d", got, step[0], step[1], want)
		}
		if got := tb.awayOf(x); got == 0 != (step[1] == x) {
			t.Fatalf("%d buckets are away", got)
		}
		check(t, tb, []sketch.Digest{d}, now)
	}
	if !tb.move(x, y, d.ID, now) {
		t.Error("a bucket that has gone makes room as well")
	}
	rng := rand.New(rand.NewPCG(14, 14))
	for range ways {
		tb.Take(inSet(tb, int(x), rng.Uint64()), now, 1000)
	}
	before := slices.Clone(tb.sets)
	if tb.move(y, x, d.ID, now) || !slices.Equal(tb.sets, before) {
		t.Error("moved into a full set")
	}
}

// TestLockOrder: two sets are locked in the same order whichever is the home,
// or two takes would wait for each other.
func TestLockOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(15, 15))
	for range 1000 {
		x, y := rng.Uint64N(5*stripes), rng.Uint64N(5*stripes)
		a, b := lockOrder(x, y)
		if c, d := lockOrder(y, x); a != c || b != d || min(a, b) != min(x%stripes, y%stripes) || max(a, b) != max(x%stripes, y%stripes) {
			t.Fatalf("sets %d and %d are locked as %d, %d and as %d, %d", x, y, a, b, c, d)
		}
	}
}
