package exact

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/clock"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// A client that waits as long as a denial says is admitted, even while the line is slow because the clock was
// set back.
func TestWindowRetryWhileTheLineIsSlow(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{0, time.Microsecond, time.Second, 5 * time.Second, time.Hour} {
		now, wall := time.Duration(0), 1_763_596_800*time.Second
		pass := func(d time.Duration) { now, wall = now+d, wall+d }
		c := new(clock.Clock)
		c.StartMachine()
		c.FollowWall(func() (at, wallAt time.Duration) { return now, wall })
		pass(7*time.Second + 3)
		c.WallTime(now)
		pass(time.Second) // the wall clock is looked at again
		wall -= back
		for _, rule := range []limit.RuleConfig{
			{Name: "a", Rate: limit.Rate{N: 1, Per: time.Minute}, Algorithm: limit.FixedWindow},
			{Name: "a", Rate: limit.Rate{N: 1, Per: time.Minute}, Algorithm: limit.SlidingWindow},
			{Name: "a", Rate: limit.Rate{N: 50, Per: time.Minute}, Algorithm: limit.SlidingWindow},
		} {
			var b Buckets
			b.SetLimit(c, shapeOf(t, rule), false)
			full := b.Ticks(now) + rule.Rate.N
			if rule.Algorithm == limit.SlidingWindow {
				full = b.Shape.Reported(b.Ticks(now), bucket.Pack(rule.Rate.N*3/4, rule.Rate.N))
			}
			d := b.Decision(sketch.Digest{}, limit.StageExact, false, full, now, 1)
			if at := now + d.RetryAfter; !b.Shape.Fits(full, b.Shape.WindowTicks(c.WallAt(at)), 1) {
				t.Errorf("%v, set back by %v: denied again after %v", rule.Algorithm, back, d.RetryAfter)
			}
			early := c.WallAt(now + d.RetryAfter - time.Microsecond)
			if b.Shape.Fits(full, b.Shape.WindowTicks(early), 1) {
				t.Errorf("%v, set back by %v: %v is more than a µs too long", rule.Algorithm, back, d.RetryAfter)
			}
		}
	}
}

// A denial counts in the window in which it was judged: if the client begins its next
// window between the two, by another request, that one is not used up. The wall clock
// is read in between, which is where the test gets in.
func TestDenialCountsWhereItWasJudged(t *testing.T) {
	t.Parallel()
	const now, window = 10 * time.Second, uint64(1000)
	for name, judge := range map[string]func(s *Shared, d sketch.Digest) bool{
		"exact": func(s *Shared, d sketch.Digest) bool { return s.Buckets.Take(d, 5, now).Allowed },
		"fallback": func(s *Shared, d sketch.Digest) bool {
			return s.fallback(d, claim{cost: 5, count: 1, deadline: now}, now).Allowed
		},
	} {
		b := newBuckets(t, limit.RuleConfig{Rate: limit.Rate{N: 10, Per: time.Minute}, Algorithm: limit.FixedWindow, CountDenied: true})
		s, client := NewShared(b, "a", away{}, timeout), clientNamed("client").Digest
		s.Table.Take(client, window<<32, 8)
		reads := 0
		s.Clock.FollowWall(func() (at, wall time.Duration) {
			if reads++; reads == 2 {
				s.Table.Take(client, (window+1)<<32, 1)
			}
			return now - time.Second, time.Duration(window) * time.Minute // read again at the next call
		})
		want := (window+1)<<32 | 1
		if judge(s, client) { // in the next window, where there is room
			want += 5
		}
		if got := s.Table.Lookup(client); reads < 2 || got != want {
			t.Errorf("%s: state %x after %d readings, want %x", name, got, reads, want)
		}
	}
}
