package fastlimit

import (
	"sync"
	"sync/atomic"
	"time"
)

// clock maps the times that callers bring onto one line that never steps
// back, as far as a bucket can tell.
//
// The limiter's own reading is monotonic and passes unchanged. A caller that
// brings its own times may bring a clock that is set back: such a step counts
// as no time passed, and time goes on from there. Goroutines that overtake
// each other between reading the time and using it look like small steps
// back; up to jitter they are left alone.
type clock struct {
	start time.Time

	// latest is the highest settled time seen, to within grain. All requests
	// read it, and one in grain writes it.
	latest atomic.Int64
	// shift is added to every time brought. Written under mu.
	shift atomic.Int64
	mu    sync.Mutex
}

const (
	clockGrain  = 1e6 // 1 ms
	clockJitter = 1e9 // 1 s

	// clockOrigin keeps a fresh clock above 0, the TAT of an unused bucket,
	// and leaves room for times brought that start below the limiter's own.
	clockOrigin = 3600e9 // 1 h
)

func newClock() clock { return clock{start: time.Now()} }

func (c *clock) read() time.Duration { return time.Since(c.start) }

// own is a reading of the limiter's clock on the settled line. The shift is
// there for those who mix it with times they bring.
func (c *clock) own() time.Duration {
	return c.read() + time.Duration(c.shift.Load()+clockOrigin)
}

// ownAt is own for a reading that was made before.
func (c *clock) ownAt(t time.Time) time.Duration {
	return t.Sub(c.start) + time.Duration(c.shift.Load()+clockOrigin)
}

// settle returns the time at which to judge a request that was read at now.
func (c *clock) settle(now time.Duration) time.Duration {
	if t, ok := c.near(now); ok {
		return t
	}
	return c.moved(now)
}

// near is settle for a time within jitter and grain of latest, which most are.
// It is apart so that it can be inlined.
func (c *clock) near(now time.Duration) (t time.Duration, ok bool) {
	t = now + time.Duration(c.shift.Load())
	return t + clockOrigin, uint64(t)-uint64(c.latest.Load())+clockJitter <= clockJitter+clockGrain
}

// moved is settle for all others.
func (c *clock) moved(now time.Duration) time.Duration {
	t := int64(now) + c.shift.Load()
	latest := c.latest.Load()
	if t-latest < -clockJitter {
		return c.stepBack(now)
	}
	if t > latest { // it may have moved since near looked
		c.latest.CompareAndSwap(latest, t)
	}
	return time.Duration(t + clockOrigin)
}

func (c *clock) stepBack(now time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	latest := c.latest.Load()
	if int64(now)+c.shift.Load() < latest-clockJitter {
		// Not before any time seen: latest may lag by a grain.
		c.shift.Store(latest + clockGrain - int64(now))
	}
	return time.Duration(int64(now) + c.shift.Load() + clockOrigin)
}
