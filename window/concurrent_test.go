package window

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/racetest"
)

// TestOneWinner: of 64 goroutines at most one is told that it was the first,
// also while the generations turn, and what they marked stays known.
func TestOneWinner(t *testing.T) {
	t.Parallel()
	const rounds = 600
	f := newFilter(t, 1<<10, 0)
	winners := 0
	for r := range rounds {
		// Every other round lies past the due time and so has a turn, by
		// Advance in even pairs of rounds, by the lookups in odd ones.
		now := time.Duration(r/2)*testPeriod*9/8 + testPeriod*9/8*time.Duration(r%2)
		before := f.epoch.Load()
		var won atomic.Int32
		racetest.Together(func(g int) {
			if g%8 == 0 && r%4 < 2 {
				f.Advance(now)
			}
			if f.FirstSeen(key(r), now) {
				won.Add(1)
			}
			if !f.Known(key(r)) {
				t.Error("not known right after a sighting")
			}
		})
		turns := f.epoch.Load() - before
		if n := won.Load(); n > 1 || n == 0 && turns == 0 {
			t.Fatalf("round %d with %d turns: %d winners", r, turns, n)
		}
		winners += int(won.Load())
		if turns > 1 {
			t.Fatalf("round %d: %d turns at one time", r, turns)
		}
	}
	if turns := f.epoch.Load(); turns < rounds/3 {
		t.Errorf("%d turns in %d rounds: this run shows little", turns, rounds)
	}
	if winners < rounds*9/10 {
		t.Errorf("%d winners in %d rounds", winners, rounds)
	}
}

// TestTurnRace: two goroutines meet at a turn, one of them turning.
func TestTurnRace(t *testing.T) { // not parallel: needs the cores
	const most = 1 << 16
	f := newFilter(t, 8, 0) // wiping is short, so that the race is close
	var won [2][most]bool
	rounds := racetest.Lockstep(most, func(g, r int) {
		now, d := time.Duration(r+1)*testPeriod, key(r)
		if g == 1 {
			f.Advance(now)
		}
		won[g][r] = f.FirstSeen(d, now)
		if !f.Known(d) {
			t.Errorf("round %d: goroutine %d forgot what it has just seen", r, g)
		}
	})
	for r := range rounds {
		if won[0][r] && won[1][r] {
			t.Fatalf("round %d: two goroutines were first", r)
		}
	}
	if turns := f.epoch.Load(); turns != uint64(rounds) {
		t.Errorf("%d turns in %d periods", turns, rounds)
	}
}

// TestMarksSurviveLongWipe: after a long gap the filter is wiped while requests
// go on; none of them is forgotten by it.
func TestMarksSurviveLongWipe(t *testing.T) { // not parallel: needs the cores
	const keys = 1 << 12
	for range 5 {
		f := newFilter(t, 1<<19, 0) // 4 MiB a generation: a wipe takes a while
		for i := range 1 << 14 {
			f.FirstSeen(key(-1-i), 0)
		}
		later := 100 * testPeriod
		var turn atomic.Int64
		racetest.Together(func(g int) {
			if g == 0 {
				f.Advance(later)
			}
			for i := turn.Add(1); i <= keys; i = turn.Add(1) {
				f.FirstSeen(key(int(i)), later)
			}
		})
		for i := 1; i <= keys; i++ {
			if !f.Known(key(i)) {
				t.Fatalf("a sighting of client %d was lost in the wipe", i)
			}
		}
		if turns := f.epoch.Load(); turns != 1 {
			t.Fatalf("%d turns at one time", turns)
		}
	}
}

// TestAdvanceElectsOne: simultaneous calls turn once.
func TestAdvanceElectsOne(t *testing.T) {
	t.Parallel()
	f := newFilter(t, 1<<12, 0)
	const rounds = 200
	for r := range time.Duration(rounds) {
		racetest.Together(func(int) { f.Advance((r + 1) * testPeriod) })
	}
	if got := f.epoch.Load(); got != rounds {
		t.Errorf("%d turns in %d periods", got, rounds)
	}
}

// TestTurnBetweenEpochAndMark: a caller that has read the epoch is held up while
// the generations turn. Its mark must be remembered for W from when it was made,
// so it belongs to the generation that is current then.
func TestTurnBetweenEpochAndMark(t *testing.T) {
	t.Parallel()
	for turns := 1; turns <= 3; turns++ {
		f := newFilter(t, 1024, 0)
		e, now := f.epoch.Load(), time.Duration(0)
		for range turns {
			now += testPeriod
			f.Advance(now)
		}
		now += testPeriod - 1 // as late as can be
		f.mark(e, key(1), now)
		f.Advance(now + 1)
		if !f.Known(key(1)) {
			t.Errorf("%d turns: forgotten at the next one", turns)
		}
		if f.FirstSeen(key(1), now+testWindow) {
			t.Errorf("%d turns: first again within the window", turns)
		}
	}
}
