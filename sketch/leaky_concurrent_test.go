package sketch

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/racetest"
)

// TestLeakyIdleRace: of two first hits on an idle cell neither is lost.
func TestLeakyIdleRace(t *testing.T) { // not parallel: needs the cores
	const keys = 1 << 17
	s := newLeaky(t, keys, noLimit)
	at := func(k int) Digest { return Digest{Pos: uint64(k) << 32 / keys << 32} }
	done := racetest.Lockstep(keys, func(_, k int) { s.Add(at(k), 1<<40, 3) })
	for k := range done {
		if got := s.Level(at(k), 1<<40); got != 6 {
			t.Fatalf("key %d: level %d after two hits of 3", k, got)
		}
	}
}

// TestLeakyLosesNothing: hits of one time add up exactly, on cells that were
// idle, where the first hit must bring the cell to now, and on busy ones.
func TestLeakyLosesNothing(t *testing.T) { // not parallel: needs the cores
	const keys = 4096
	s := newLeaky(t, keys, noLimit)
	at := func(k int) Digest { return Digest{Pos: uint64(k) << 32 / keys << 32} }
	var turn atomic.Int64
	for round := range uint64(3) {
		now := (round + 1) << 40
		turn.Store(0)
		racetest.Together(func(int) {
			// All follow one turn, so that they meet on the same cells.
			for {
				i := turn.Add(1) - 1
				if i >= keys*racetest.Goroutines {
					return
				}
				s.Add(at(int(i/racetest.Goroutines)), now, 3)
			}
		})
		for k := range keys {
			if got := s.Level(at(k), now); got != 3*racetest.Goroutines {
				t.Fatalf("round %d, key %d: level %d after %d hits of 3", round, k, got, racetest.Goroutines)
			}
		}
	}
}

// TestLeakyConcurrentModel: 64 goroutines on shared cells and one moving
// clock. Hits take effect in some order that is not that of their times; the
// order of their times gives the least level of all orders, so S must not be
// below it.
func TestLeakyConcurrentModel(t *testing.T) {
	t.Parallel()
	const keys, hits = 12, 2000
	type hit struct {
		key       int
		now, cost uint64
	}
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			seeds := rand.New(rand.NewPCG(5, 5))
			s := newLeaky(t, p.blocks, noLimit)
			var digests [keys]Digest
			for i := range digests {
				digests[i] = p.digest(seeds)
			}
			var clock atomic.Uint64
			clock.Store(1 << 30)
			var log [racetest.Goroutines][]hit
			racetest.Together(func(g int) {
				rng := rand.New(rand.NewPCG(uint64(g), 6))
				var own [keys]tat
				for range hits {
					// Cells drain often, so that hits race to raise an idle one.
					h := hit{rng.IntN(keys), clock.Add(rng.Uint64N(200)), 1 + rng.Uint64N(100)}
					got := s.Add(digests[h.key], h.now, h.cost)
					own[h.key].add(h.now, h.cost)
					if want := own[h.key].level(h.now); got < want {
						t.Errorf("key %d: Add = %d, below %d of this goroutine alone", h.key, got, want)
						return
					}
					log[g] = append(log[g], h)
				}
			})
			for k := range keys {
				// The level in the order of times is the greatest, over hits i,
				// of i's time and the costs from i on.
				byTime := map[uint64]uint64{}
				for _, hs := range log {
					for _, h := range hs {
						if h.key == k {
							byTime[h.now] += h.cost
						}
					}
				}
				if got, want := s.Level(digests[k], 0), sortedLevel(byTime); got < want {
					t.Errorf("key %d: busy until %d, below the exact %d", k, got, want)
				}
			}
		})
	}
}

// sortedLevel is the TAT of one bucket after hits in the order of their times.
func sortedLevel(byTime map[uint64]uint64) uint64 {
	var c tat
	for _, now := range slices.Sorted(maps.Keys(byTime)) {
		c.add(now, byTime[now])
	}
	return uint64(c)
}
