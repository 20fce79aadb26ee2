package clock

import (
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// TestLineFollowsTheLatestReading has two goroutines bring readings at once, the
// first ones in their grain: the line gets to the later one.
func TestLineFollowsTheLatestReading(t *testing.T) {
	t.Parallel()
	const rounds, step = 1_000_000, 10 * time.Millisecond
	c := Clock{machine: true}
	c.end.Store(&End{math.MaxInt64, "a test"})
	var turn, done atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := int64(1); i <= rounds; i++ {
			for turn.Load() < i {
				runtime.Gosched()
			}
			c.Follow(time.Duration(i) * step)
			done.Store(i)
		}
	})
	lost := 0
	for i := int64(1); i <= rounds; i++ {
		late := time.Duration(i)*step + step/2
		turn.Store(i)
		c.Follow(late)
		for done.Load() < i {
			runtime.Gosched()
		}
		if time.Duration(c.latest.Load()) < late-grain {
			lost++
		}
	}
	wg.Wait()
	if lost > 0 {
		t.Errorf("in %d of %d rounds the line stayed behind the later reading", lost, rounds)
	}
}

// A limiter that takes long to make asks a clock that has no end yet.
func TestClockBeforeItsLimiter(t *testing.T) {
	t.Parallel()
	var c Clock
	c.StartMachine()
	c.start = c.start.Add(-time.Hour)
	if now := c.Elapsed(); now < time.Hour || c.latest.Load() != 0 {
		t.Errorf("%v, the line at %d", now, c.latest.Load())
	}
	c.EndBy(&End{time.Minute, "a test"}, &End{At: math.MaxInt64})
	if got := testkit.Recovered(func() { c.Now() }); !strings.Contains(got, "make a new one") {
		t.Errorf("past the end: panic %q", got)
	}
}

// The windows of a second end in 2106, as their numbers have 32 bits. No clock that says that
// it is later is believed.
func TestClocksBeyondTheLastWindow(t *testing.T) {
	t.Parallel()
	const last = 1<<32*time.Second - 1
	var c Clock
	c.EndBy(&End{math.MaxInt64, "a test"}, &End{last, "a test"})
	w := &c.wall
	w.moveLocked(0, time.Hour, wallGuess)
	w.moveLocked(0, last+1, wallClock)
	c.ObserveStore(uint64((last+time.Hour)/time.Microsecond), 0, 0, time.Second)
	if got := c.WallAt(time.Second); got != time.Hour+time.Second {
		t.Errorf("after clocks from beyond the wall time is %v", got)
	}
	w.moveLocked(0, last, wallClock)
	if got := c.WallAt(0); got != last {
		t.Errorf("at the last time of a clock the wall time is %v", got)
	}
}
