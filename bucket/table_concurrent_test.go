package bucket

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/racetest"
	"github.com/fastlimit/fastlimit/sketch"
)

// TestNoTornRead: a reader never finds another client's TAT under an ID, while
// writers replace each other's entries in one set. A TAT here has its client
// in the lowest bits.
func TestNoTornRead(t *testing.T) { // not parallel: needs the cores
	const writers, readers, clientCount, enough = 2, 2, 16, 2_000_000
	tb := newTable(t, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	ids := make([]uint64, clientCount)
	for i := range ids {
		ids[i] = rng.Uint64()
	}
	var write, read sync.WaitGroup
	var done atomic.Bool
	var found atomic.Int64
	deadline := time.Now().Add(2 * time.Second) // enough, where cores are scarce
	for w := range uint64(writers) {
		write.Go(func() {
			for k := uint64(0); found.Load() < enough && (found.Load() == 0 || time.Now().Before(deadline)); k++ {
				// Each client has one writer, and drains between two of its
				// requests, so its TAT is now + cost.
				c := w + writers*(k%(clientCount/writers))
				now := (k + 1) * 1024
				if _, ok := tb.Take(sketch.Digest{ID: ids[c]}, now, 16+c); !ok {
					t.Error("denied")
				}
			}
		})
	}
	for r := range readers {
		read.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(r)))
			for !done.Load() {
				c := rng.Uint64N(clientCount)
				tat := tb.Lookup(sketch.Digest{ID: ids[c]})
				if tat == 0 {
					continue
				}
				found.Add(1)
				if tat%16 != c {
					t.Errorf("client %d found with a TAT of client %d", c, tat%16)
					return
				}
			}
		})
	}
	write.Wait()
	done.Store(true)
	read.Wait()
	if found.Load() == 0 {
		t.Error("no reader ever found an entry: this run shows nothing")
	}
}

// TestTakeIsExact: 64 goroutines on one bucket take its burst and not one unit
// more, whatever else happens in its set.
func TestTakeIsExact(t *testing.T) { // not parallel: needs the cores
	const now, takes, cost = 1 << 50, 2000, 1 << 20
	tb := newTable(t, 1)
	d, neighbour := sketch.Digest{ID: 1 << 40}, sketch.Digest{ID: 1 << 41}
	room := int64(tb.shape.Limit() / cost) // about half of all that ask
	var admitted atomic.Int64
	racetest.Together(func(g int) {
		for range takes {
			if g == 0 {
				tb.Take(neighbour, now, 1)
				tb.Sweep(now, 0, 1)
			}
			if _, ok := tb.Take(d, now, cost); ok {
				admitted.Add(1)
			}
		}
	})
	if got := admitted.Load(); got != room {
		t.Errorf("%d of %d admitted, want %d", got, takes*racetest.Goroutines, room)
	}
	if got := Level(tb.Lookup(d), now); got != uint64(room)*cost {
		t.Errorf("level %d, want %d", got, uint64(room)*cost)
	}
}

// TestFirstTakeRace: two clients that enter the table at the same time, into
// one set or into two whose used bits share a word, are both found, and
// neither's charge is lost.
func TestFirstTakeRace(t *testing.T) { // not parallel: needs the cores
	const words, passes = 128, 200 // small enough to stay in cache
	tb := newTable(t, marksWord*words)
	at := func(set, id int) sketch.Digest { return inSet(tb, set, uint64(id+1)<<40) }
	now, start := uint64(1<<50), time.Now()
	for pass := 0; pass < passes && time.Since(start) < 2*time.Second; pass++ {
		now += 2 * tb.shape.Limit()
		tb.Sweep(now, 0, 1) // all drained, all bits cleared
		rounds := racetest.Lockstep(words, func(g, r int) {
			tb.Take(at(marksWord*r+g, g), now, 1000)  // sets of one word
			tb.Take(at(marksWord*r+9, g), now, 1000)  // one set
			tb.Take(at(marksWord*r+17, 5), now, 1000) // one bucket
		})
		for r := range rounds {
			for _, want := range []struct{ set, id, level int }{{0, 0, 1000}, {1, 1, 1000}, {9, 0, 1000}, {9, 1, 1000}, {17, 5, 2000}} {
				if got := Level(tb.Lookup(at(marksWord*r+want.set, want.id)), now); got != uint64(want.level) {
					t.Fatalf("word %d: set %d, client %d: level %d, want %d", r, want.set, want.id, got, want.level)
				}
			}
		}
	}
}

// inSet is a client whose home is set x.
func inSet(tb *Table, x int, id uint64) sketch.Digest {
	n := uint64(len(tb.sets))
	return sketch.Digest{Pos: (uint64(x)<<32 + n - 1) / n << 8, ID: id}
}

// TestSweepLosesNothing: a bucket that a request has just filled is found
// afterwards although a sweep ran meanwhile, which had found its set drained.
func TestSweepLosesNothing(t *testing.T) { // not parallel: needs the cores
	const most = 1 << 20
	tb := newTable(t, 3) // few, so that the sweep is where the request is
	deadline := time.Now().Add(time.Second)
	var clock atomic.Uint64
	clock.Store(1 << 50)
	var done atomic.Bool
	var sweeper sync.WaitGroup
	sweeper.Go(func() {
		for !done.Load() {
			tb.Sweep(clock.Load(), 0, 1)
		}
	})
	rng := rand.New(rand.NewPCG(3, 3))
	for r := 0; r < most && (r%64 != 0 || time.Now().Before(deadline)); r++ {
		d := sketch.Digest{Pos: rng.Uint64(), ID: rng.Uint64()}
		now := clock.Add(1000) // all buckets of before have drained
		tb.Take(d, now, 500)
		if tb.Lookup(d) == 0 {
			t.Error("a bucket that was just filled is not found")
			break
		}
	}
	done.Store(true)
	sweeper.Wait()
}

// TestConcurrentMix runs all operations at once, for the race detector, and
// then holds every bucket to what the operations allow.
func TestConcurrentMix(t *testing.T) {
	t.Parallel()
	const goroutines, ops = 16, 4000
	tb := newTable(t, 4)
	rng := rand.New(rand.NewPCG(4, 4))
	ds := clients(rng, 32, rng.Uint64)
	var clock atomic.Uint64
	clock.Store(1 << 30)
	var wg sync.WaitGroup
	for g := range uint64(goroutines) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(5, g))
			for range ops {
				d, now := ds[rng.IntN(len(ds))], clock.Add(rng.Uint64N(500))
				switch rng.IntN(10) {
				case 0:
					tb.Reset(d)
				case 1:
					tb.Refund(d, now, 5000)
				case 2:
					tb.Sweep(now, int(g)%4, 4)
				case 3:
					tb.Settle(d, now, 0, now+rng.Uint64N(tb.shape.Limit()))
				case 4:
					tb.Live(now, 4)
				case 5, 6:
					tat := tb.Lookup(d) // before the clock is read again: now may be old
					if l := Level(tat, clock.Load()); l > tb.shape.Limit() {
						t.Errorf("level %d above the burst of %d", l, tb.shape.Limit())
					}
				default:
					tb.Take(d, now, 1000)
				}
			}
		})
	}
	wg.Wait()
	now := clock.Load()
	for _, d := range ds {
		if l := Level(tb.Lookup(d), now); l > tb.shape.Limit() {
			t.Errorf("level %d above the burst of %d", l, tb.shape.Limit())
		}
	}
	check(t, tb, ds, now)
}
