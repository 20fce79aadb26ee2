package clock

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wallTrace is a clock of which a test sets both sides.
type wallTrace struct {
	clock Clock

	at, wallAt time.Duration
}

func newWallTrace(stored bool) *wallTrace {
	t := &wallTrace{wallAt: 1_763_596_800 * time.Second}
	t.clock.StartMachine()
	t.clock.readWall = func() (now, wall time.Duration) { return t.at, t.wallAt }
	t.clock.StartWall(stored)
	return t
}

// pass lets time pass on both clocks.
func (t *wallTrace) pass(d time.Duration) { t.at, t.wallAt = t.at+d, t.wallAt+d }

// ahead is how far the line is ahead of the wall clock.
func (t *wallTrace) ahead() time.Duration { return t.clock.WallTime(t.at) - t.wallAt }

func TestWallLine(t *testing.T) {
	t.Parallel()
	w := newWallTrace(false)
	for i, s := range []struct {
		pass, set time.Duration // then the wall clock is set forward by that
		want      time.Duration
	}{
		{0, 0, 0},
		{900 * time.Millisecond, 0, 0},
		{0, time.Hour, -time.Hour}, // not looked at yet
		{100 * time.Millisecond, 0, 0},
		{time.Second, -8 * time.Second, 8 * time.Second}, // stands where it was, and goes slower
		{8 * time.Second, 0, 7 * time.Second},
		{8 * time.Second, 0, 6 * time.Second},
		{48 * time.Second, 0, 0},
		{time.Second, 0, 0},
		{time.Second, -time.Millisecond, time.Millisecond},
		{time.Second, 0, 0}, // no slower than it has to be
	} {
		w.pass(s.pass)
		w.wallAt += s.set
		if got := w.ahead(); got != s.want {
			t.Errorf("step %d: %v ahead, want %v", i, got, s.want)
		}
	}
}

// Whatever the wall clock does, the line does not step back, goes no slower than
// 7/8, and is where the wall clock is once that has been right for eight times its
// error.
func TestWallLineNeverStepsBack(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(14, 3))
	for range 200 {
		w := newWallTrace(false)
		last, lastAt := w.clock.WallTime(w.at), w.at
		for range 500 {
			w.pass(time.Duration(rng.Int64N(int64(3 * time.Second))))
			if rng.IntN(10) == 0 {
				w.wallAt += time.Duration(rng.Int64N(1<<rng.UintN(42))) - 1<<rng.UintN(42)
			}
			got := w.clock.WallTime(w.at)
			if got-last < (w.at-lastAt)*7/8-1 {
				t.Fatalf("%v in %v", got-last, w.at-lastAt)
			}
			last, lastAt = got, w.at
		}
		for range 9 {
			w.pass(max(0, w.ahead()) + wallEvery)
		}
		for w.ahead() > 0 && w.at < 1<<60 {
			w.pass(8 * w.ahead())
		}
		if got := w.ahead(); got != 0 {
			t.Errorf("%v ahead in the end", got)
		}
	}
}

// With a store the line is never behind the store's clock, and after two seconds
// of answers no further ahead than they took.
func TestWallLineLeadsTheStore(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(14, 4))
	const patience = 5 * time.Millisecond
	for range 200 {
		w := newWallTrace(true)
		offset := time.Duration(rng.Int64N(int64(20*time.Second))) - 10*time.Second
		drift := rng.Float64()*1e-3 - 5e-4 // of the store's clock
		store := func() time.Duration { return w.wallAt + offset + time.Duration(float64(w.at)*drift) }
		for range 2000 {
			w.pass(time.Duration(rng.Int64N(int64(30 * time.Millisecond))))
			if rng.IntN(300) == 0 {
				w.pass(time.Duration(rng.Int64N(int64(time.Minute))))
			}
			sent := w.at
			w.pass(time.Duration(rng.Int64N(int64(patience / 2))))
			micros := uint64(store() / time.Microsecond)
			w.pass(time.Duration(rng.Int64N(int64(patience / 2))))
			w.clock.ObserveStore(micros, sent, w.at, patience)
			if lead := w.clock.WallTime(w.at) - store(); lead < -time.Microsecond {
				t.Fatalf("behind by %v at %v", -lead, w.at)
			}
		}
		for range 40000 {
			w.pass(5 * time.Millisecond)
			w.clock.ObserveStore(uint64(store()/time.Microsecond), w.at, w.at, patience)
		}
		if lead := w.clock.WallTime(w.at) - store(); lead > patience {
			t.Errorf("ahead by %v", lead)
		}
	}
}

// TestEarlyReading: a reading from before an anchor gets no less than the line said before that, at
// whatever speed.
func TestEarlyReading(t *testing.T) {
	t.Parallel()
	for _, surplus := range []time.Duration{0, time.Second, time.Hour} {
		before := anchor{base: time.Hour, surplus: surplus}
		after := anchor{at: time.Minute, base: before.wall(time.Minute)}
		for now := time.Duration(0); now <= time.Minute; now += time.Second / 8 {
			if was, is := before.wall(now), after.wall(now); is < was {
				t.Errorf("surplus %v: at %v the line said %v, and then %v", surplus, now, was, is)
			}
		}
	}
}

// Concurrent readings of the line agree with its source, and never step back.
func TestWallLineConcurrently(t *testing.T) {
	t.Parallel()
	w := newWallTrace(false)
	var mu sync.Mutex
	var latest atomic.Int64 // time that a reader has read: the clock is not behind it
	w.clock.readWall = func() (now, wall time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		w.pass(max(wallEvery, time.Duration(latest.Load())-w.at))
		w.wallAt -= 10 * time.Millisecond
		return w.at, w.wallAt
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			last := time.Duration(0)
			for i := range 20_000 {
				now := time.Duration(i) * 100 * time.Millisecond
				for l := latest.Load(); int64(now) > l && !latest.CompareAndSwap(l, int64(now)); l = latest.Load() {
				}
				got := w.clock.WallTime(now)
				if got < last {
					t.Errorf("%v after %v", got, last)
					return
				}
				last = got
			}
		})
	}
	all.Wait()
}
