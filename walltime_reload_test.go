package fastlimit

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/sketch"
)

// A reload goes on with what a store has said of its clock: looking at this
// machine's again would move the line away from the store's, and back by the next
// answer, so that filter and sketch admit a share of the limit once more.
func TestReloadKeepsTheStoresTime(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-time.Minute, time.Minute} { // of the store
		w := newWallTrace(wallGuess)
		observe := func() {
			w.clock.observeStore(uint64((w.wallAt+ahead)/time.Microsecond), w.at, w.at, time.Millisecond)
		}
		observe()
		for range 3 {
			w.clock.startWall(wallGuess)
			if got := w.ahead(); got != ahead {
				t.Errorf("%v ahead of the machine's clock after a reload, want %v", got, ahead)
			}
			observe()
		}
	}
}

// An answer that comes after a reload to no store says nothing: the line follows
// this machine's clock, also when that is set later.
func TestLateAnswerAfterTheStoreIsGone(t *testing.T) {
	t.Parallel()
	w := newWallTrace(wallGuess)
	observe := func(ahead time.Duration) {
		w.clock.observeStore(uint64((w.wallAt+ahead)/time.Microsecond), w.at, w.at, time.Second)
	}
	observe(0)
	w.clock.startWall(wallClock)
	observe(time.Millisecond)
	w.pass(2 * wallEvery)
	w.wallAt += time.Hour
	if got := w.ahead(); got != 0 {
		t.Errorf("%v ahead of the machine's clock, which was set", got)
	}
}

// Whoever waits for what a denial says is admitted, also while the line goes slower
// since the clock was set back.
func TestWindowRetryWhileTheLineIsSlow(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{0, time.Microsecond, time.Second, 5 * time.Second, time.Hour} {
		w := newWallTrace(wallClock)
		w.pass(7*time.Second + 3)
		w.clock.wallTime(w.at)
		w.pass(wallEvery)
		w.wallAt -= back
		now := w.at
		for _, rule := range []RuleConfig{windowRule("a", 1, time.Minute), slidingRule("a", 1, time.Minute), slidingRule("a", 50, time.Minute)} {
			b := buckets{clock: &w.clock, windowed: true, shape: rule.shape()}
			full := b.ticks(now) + rule.Rate.N
			if rule.Algorithm == SlidingWindow {
				full = b.shape.Told(b.ticks(now), bucket.Pack(rule.Rate.N*3/4, rule.Rate.N))
			}
			d := b.decisionOn(sketch.Digest{}, StageExact, false, full, now, 1)
			if at := now + d.RetryAfter; !b.shape.Fits(full, b.shape.WindowTicks(w.clock.wall.anchor.Load().wall(at)), 1) {
				t.Errorf("%v, set back by %v: denied again after %v", rule.Algorithm, back, d.RetryAfter)
			}
			early := w.clock.wall.anchor.Load().wall(now + d.RetryAfter - time.Microsecond)
			if b.shape.Fits(full, b.shape.WindowTicks(early), 1) {
				t.Errorf("%v, set back by %v: %v is more than a µs too long", rule.Algorithm, back, d.RetryAfter)
			}
		}
	}
}
