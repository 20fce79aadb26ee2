package bucket

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/racetest"
	"github.com/fastlimit/fastlimit/sketch"
)

// TestMovedIsNeverAbsent: a lookup that runs while a bucket leaves home finds it
// in one of its sets.
func TestMovedIsNeverAbsent(t *testing.T) { // not parallel: needs the cores
	const now, most = 1 << 50, 1 << 16
	tb := newTable(t, most)
	ds := make([]sketch.Digest, most)
	for i := range ds {
		ds[i] = inSet(tb, i, uint64(i+1)<<40|1)
		tb.Take(ds[i], now, 1000)
		tb.markLocked(uint64(i), spilled) // as if another had left before
	}
	var absent atomic.Int64
	racetest.Lockstep(most, func(g, r int) {
		switch x := uint64(r); g {
		case 0:
			tb.move(x, tb.other(x, ds[r].ID), ds[r].ID, now)
		case 1:
			if tb.Lookup(ds[r]) == 0 {
				absent.Add(1)
			}
		}
	})
	if n := absent.Load(); n > 0 {
		t.Errorf("%d of %d lookups found nothing", n, most)
	}
	check(t, tb, ds, now)
}

// TestMovesUnderLoad has goroutines fill a table to what it holds with clients
// of their own, who come and go, so that buckets are moved all the time, while
// others look them up and sweep. Every take must know what its client took
// before, and nothing may be given up.
func TestMovesUnderLoad(t *testing.T) {
	t.Parallel()
	const goroutines, sets, turns = 8, 256, 20_000
	tb := newTable(t, sets)
	unit := tb.shape.Unit()
	const now = 1 << 50
	each := tb.Buckets() / goroutines
	all := make([]sketch.Digest, goroutines*each)
	rng := rand.New(rand.NewPCG(11, 0))
	for i := range all {
		v := rng.Uint64()
		all[i] = sketch.Digest{Pos: v, ID: v}
	}
	var stop atomic.Bool
	var readers, writers sync.WaitGroup
	readers.Go(func() {
		for i := 0; !stop.Load(); i++ {
			if i%len(all) == 0 {
				tb.Sweep(now, 0, 1)
			}
			if tat := tb.Lookup(all[i%len(all)]); tat != 0 && (tat <= now || Level(tat, now)%unit != 0 || Level(tat, now) > tb.shape.Limit()) {
				t.Errorf("found a TAT %d that nobody wrote", tat)
				return
			}
		}
	})
	taken := make([]uint64, len(all)) // units; each owned by one goroutine
	for g := range goroutines {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(12, uint64(g)))
			for range turns {
				i := g*each + rng.IntN(each)
				switch d := all[i]; {
				case taken[i] > 0 && rng.IntN(3) == 0:
					tb.Reset(d)
					taken[i] = 0
				case taken[i] > 1 && rng.IntN(8) == 0:
					tb.Refund(d, now, unit)
					taken[i]--
				case taken[i] < 20:
					taken[i]++
					if tat, ok := tb.Take(d, now, unit); !ok || Level(tat, now) != taken[i]*unit {
						t.Errorf("Take = %v with a level of %d units, want %d", ok, Level(tat, now)/unit, taken[i])
						return
					}
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	if n := tb.Evictions(); n != 0 {
		t.Errorf("%d evictions in a table that holds all", n)
	}
	for i, d := range all {
		if got := Level(tb.Lookup(d), now); got != taken[i]*unit {
			t.Fatalf("level %d, want %d units", got, taken[i])
		}
	}
	check(t, tb, all, now)
	away := uint32(0)
	for x := range uint64(len(tb.sets)) {
		away += tb.awayOf(x)
	}
	if away == 0 {
		t.Error("no bucket is away from home: this run shows nothing")
	}
}

// TestOneRoomForMany has 64 goroutines look for room for a client of their own
// around one pair of sets. All find some: none is given up for a race lost.
func TestOneRoomForMany(t *testing.T) {
	t.Parallel()
	for round := range uint64(50) {
		const now = 1 << 50
		tb := newTable(t, 64)
		rng := rand.New(rand.NewPCG(13, round))
		ds := make([]sketch.Digest, racetest.Goroutines)
		for i := range ds {
			ds[i] = inSet(tb, int(rng.Uint64N(8)), rng.Uint64()) // eight homes for 64
		}
		racetest.Together(func(g int) { tb.Take(ds[g], now, tb.shape.Unit()) })
		if n := tb.Evictions(); n != 0 {
			t.Fatalf("round %d: %d evictions at a quarter of what the table holds", round, n)
		}
		check(t, tb, ds, now)
	}
}
