package ban

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Many goroutines deny many clients that share two sets, so that each denial makes somebody
// give up a place, in which another one may be about to count. Each client is denied once too
// few within any Within, from several goroutines and with readings that overtake each
// other: none may be banned.
func TestNobodyIsBannedForOthers(t *testing.T) {
	t.Parallel()
	for _, after := range []int{2, 3, 9} {
		p := mustPolicy(Policy{After: after, Within: time.Second, For: time.Hour})
		tb := newTable(2, p.Within)
		const clients, rounds, goroutines = 32, 3000, 4
		var digests [clients]sketch.Digest
		for i := range digests {
			digests[i] = sketch.Digest{Pos: uint64(i), ID: uint64(i) << 8} // one mark, so all lines are compared
		}
		var due atomic.Int64
		for round := range rounds {
			from := time.Duration(round) * 2 * p.Within
			var all sync.WaitGroup
			for g := range goroutines {
				all.Go(func() {
					r := rand.New(rand.NewPCG(uint64(round), uint64(g)))
					for k := g; k < clients*(after-1); k += goroutines {
						d := digests[k*7%clients]
						if tb.Deny(&p, d, from+rand.N(p.Within-1)) {
							if _, _, begun := tb.Begin(&p, d, from+p.Within, nil); begun {
								due.Add(1)
							}
						}
						if r.IntN(64) == 0 {
							tb.Sweep(&p, from, r.IntN(2), 2)
						}
					}
				})
			}
			all.Wait()
		}
		if n := due.Load(); n > 0 {
			t.Errorf("after %d: %d bans of clients that were denied once too few", after, n)
		}
		if tb.Stats(0).Passed == 0 {
			t.Error("nobody had to make room")
		}
	}
}

// No denial of a client that keeps its place is lost, and one of all requests begins the ban.
func TestEveryDenialCounts(t *testing.T) {
	t.Parallel()
	const goroutines, each = 4, 500
	p := mustPolicy(Policy{After: goroutines * each, Within: 10 * time.Second, For: time.Hour})
	for round := range 50 {
		tb, d := newTable(4, p.Within), sketch.Digest{Pos: uint64(round) << 20, ID: 7}
		var begun, running atomic.Int64
		var all sync.WaitGroup
		for g := range goroutines {
			all.Go(func() {
				for k := range each {
					// Slots turn meanwhile, and some readings are overtaken.
					at := time.Duration(k) * 9 * time.Second / each
					if tb.Deny(&p, d, at+time.Duration(g)*10*time.Millisecond) {
						_, runs, first := tb.Begin(&p, d, 10*time.Second, []byte("x"))
						if first {
							begun.Add(1)
						} else if runs {
							running.Add(1)
						}
					}
				}
			})
		}
		all.Wait()
		if begun.Load() != 1 {
			t.Fatalf("round %d: %d bans, want 1", round, begun.Load())
		}
		if end, ok := tb.Banned(d, 10*time.Second); !ok || end != 10*time.Second+time.Hour {
			t.Fatalf("round %d: until %v", round, end)
		}
	}
}

// While bans begin, end, are lifted and listed, whoever is not banned is never taken for
// somebody who is: a reader sees one client's ban as another's only if it mixes two moments.
func TestReadersSeeOneMoment(t *testing.T) {
	t.Parallel()
	p := mustPolicy(Policy{After: 1, For: time.Second})
	tb := newTable(1, p.Within)
	var stop atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for i := range uint64(200_000) {
			d := sketch.Digest{Pos: i % 16, ID: 1 + i%16}
			if i%16 < 8 {
				tb.banNow(&p, d, 0)
				tb.Lift(d, 0)
			} else {
				tb.Deny(&p, sketch.Digest{Pos: i % 16, ID: i % 16}, 0) // in the same place, and never banned
				tb.Lift(sketch.Digest{Pos: i % 16, ID: i % 16}, 0)
			}
		}
		stop.Store(true)
	})
	for i := uint64(8); !stop.Load(); i = 8 + (i+1)%8 {
		if _, ok := tb.Banned(sketch.Digest{Pos: i, ID: i}, 0); ok {
			t.Error("banned for another")
			break
		}
		for range tb.All(0) {
			break
		}
	}
	all.Wait()
}

// What was read of a client neither counts for whoever has its place by then, nor bans it:
// the races of the tests above, a few ns wide, step by step.
func TestPlaceTakenMeanwhile(t *testing.T) {
	t.Parallel()
	p := mustPolicy(Policy{After: 2, For: time.Hour})
	tb, old, next := newTable(1, p.Within), sketch.Digest{Pos: 1, ID: 1}, sketch.Digest{Pos: 2, ID: 2}
	h := tb.lock(old)
	tb.enterLocked(0, old, 0)
	h.unlock()
	r, w := tb.find(old)
	h = tb.lock(next)
	tb.enterLocked(0, next, 0) // with the same count, 0
	h.unlock()
	if r.count(w) || r.word.Load()&maxCount != 0 {
		t.Error("a denial of the client before counts")
	}
	tb.Deny(&p, next, 0)
	if tb.Deny(&p, next, 0); !tb.banNow(&p, next, 0) {
		t.Error("not banned")
	}
	if end, ok := r.until(w); ok {
		t.Errorf("the client before is banned until %v", end)
	}
	w = r.open()
	if other, _ := tb.find(next); other != nil || r.count(w) {
		t.Error("a record is read while it is changed")
	}
	r.close(w, 0)
}
