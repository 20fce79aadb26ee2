package bucket

import (
	"math/rand/v2"
	"testing"

	"github.com/fastlimit/fastlimit/sketch"
)

// TestCapacity: a table holds Buckets() undrained buckets at a time, loses none
// while clients come and go, and finds each by reading. Below half of it that is
// true of small tables too, though chance could send nine clients to one pair
// of sets (TestOverflowChance).
func TestCapacity(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		sets, percent, churn int
	}{
		{64, 50, 100_000},
		{1 << 10, 100, 200_000},
		{3000, 100, 200_000},
		{1 << 15, 100, 200_000},
	} {
		rng := rand.New(rand.NewPCG(9, uint64(tt.sets)))
		tb := newTable(t, tt.sets)
		const now = 1 << 50
		unit := tb.shape.Unit()
		ds := make([]sketch.Digest, tb.Buckets()*tt.percent/100)
		enter := func(i int) {
			v := rng.Uint64()
			ds[i] = sketch.Digest{Pos: v, ID: v}
			tb.Take(ds[i], now, 5*unit)
		}
		for i := range ds {
			enter(i)
		}
		for range tt.churn {
			i := rng.IntN(len(ds))
			tb.Reset(ds[i])
			enter(i)
		}
		for _, d := range ds {
			if got := tb.Lookup(d); got != now+5*unit {
				t.Fatalf("%d sets: TAT %d, want that of 5 units", tt.sets, got)
			}
		}
		if n := tb.Evictions(); n != 0 {
			t.Errorf("%d sets at %d %%: %d evictions", tt.sets, tt.percent, n)
		}
		if got := tb.Live(now, 1<<30); got < 0.999*float64(tt.percent)/100 || got > float64(tt.percent)/100 {
			t.Errorf("%d sets at %d %%: Live = %v", tt.sets, tt.percent, got)
		}
		check(t, tb, ds, now)
	}
}

// TestBeyondCapacity: what is lost beyond it is counted exactly, unit by unit.
// At 1.5 of the buckets a third of the clients cannot be held.
func TestBeyondCapacity(t *testing.T) {
	t.Parallel()
	const sets, now = 1 << 10, 1 << 50
	rng := rand.New(rand.NewPCG(10, 10))
	tb := newTable(t, sets)
	unit := tb.shape.Unit()
	ds, taken := make([]sketch.Digest, 6*sets), uint64(0)
	for i := range ds {
		v, n := rng.Uint64(), 1+rng.Uint64N(20)
		ds[i] = sketch.Digest{Pos: v, ID: v}
		tb.Take(ds[i], now, n*unit)
		taken += n
	}
	held, lost := uint64(0), uint64(0)
	for _, d := range ds {
		if tat := tb.Lookup(d); tat == 0 {
			lost++
		} else {
			held += (tat - now) / unit
		}
	}
	if tb.Evictions() != lost || tb.Forgiven() != taken-held {
		t.Errorf("%d evictions of %d units, want %d of %d", tb.Evictions(), tb.Forgiven(), lost, taken-held)
	}
	if least, most := uint64(len(ds)-4*len(tb.sets)), uint64(len(ds)-tb.Buckets()); lost < least || lost > most {
		t.Errorf("%d buckets lost, want %d to %d", lost, least, most)
	}
	check(t, tb, ds, now)
}

// TestOverflowChance holds the bound to tables so small and full that overflow
// can be seen, and to what is promised of planned ones.
func TestOverflowChance(t *testing.T) {
	t.Parallel()
	const sets, clientCount, trials, now = 3, 12, 200_000, 1 << 50
	rng := rand.New(rand.NewPCG(16, 16))
	tb := newTable(t, sets)
	overflows := 0
	var ds [clientCount]sketch.Digest
	for range trials {
		before := tb.Evictions()
		for i := range ds {
			ds[i] = sketch.Digest{Pos: rng.Uint64(), ID: rng.Uint64()}
			tb.Take(ds[i], now, 1000)
		}
		if tb.Evictions() > before {
			overflows++
		}
		for _, d := range ds {
			tb.Reset(d)
		}
	}
	want := OverflowChance(sets, clientCount) * trials // 337
	if got := float64(overflows); got > want || got < want/4 {
		t.Errorf("%v overflows in %d tables, the bound is %v", got, trials, want)
	}
	for n, most := range map[int]float64{1: 0, 8: 1e-6, 100: 1e-12, 1 << 10: 1e-20, 1 << 17: 1e-35, 1 << 30: 1e-62} {
		if got := OverflowChance(n, 2*n); got > most || n > 8 && got < most/1e4 {
			t.Errorf("%d sets, half full: chance %v, want at most %v", n, got, most)
		}
	}
	if got := OverflowChance(100, 600); got != 1 {
		t.Errorf("over-full: chance %v", got)
	}
}
