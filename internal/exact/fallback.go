package exact

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// closedRetry is the RetryAfter of a FailClosed denial, which has no bucket to compute one from.
const closedRetry = time.Second

// fallback decides by the failure policy.
func (s *Shared) fallback(d sketch.Digest, c claim, now time.Duration) verdict {
	s.Distrust(now)
	s.Lookup(d, now) // drops what the policy must not count
	var v verdict
	switch c.policy {
	case limit.FailOpen:
		v.Allowed, v.Remaining, v.granted = true, limit.RemainingUnknown, c.count
	case limit.FailClosed:
		v.RetryAfter = closedRetry
	default:
		// Charged as of the deadline at the latest: if this process was paused since, a charge as of now
		// would convict the requests after this one.
		tat, granted := s.takeLocal(d, c.cost, c.count, min(now, c.deadline))
		if granted < c.count && now > c.deadline {
			var more uint64
			tat, more = s.takeLocal(d, c.cost, c.count-granted, now)
			granted += more
		}
		if granted < c.count && s.countDenied { // unless it fits by now
			var ok bool
			if tat, ok = s.Table.TakeCounted(d, s.Ticks(now), (c.count-granted)*c.cost); ok {
				granted = c.count
			}
		}
		v = verdict{s.Decision(d, limit.StageFallback, granted > 0, tat, now, c.cost), granted}
	}
	v.Stage, v.Degraded = limit.StageFallback, true
	return v
}

// takeLocal charges as many of count charges as fit to this node's table.
func (s *Shared) takeLocal(d sketch.Digest, cost, count uint64, now time.Duration) (tat, granted uint64) {
	if count > 1 { // of a TakeUpTo, one unit each
		return s.fill(d, count, now)
	}
	tat, ok := s.Table.Take(d, s.Ticks(now), cost)
	if ok {
		granted = 1
	}
	return tat, granted
}

// Distrust makes takes carry floors until the table has nothing from before.
func (s *Shared) Distrust(now time.Duration) {
	s.doubt.Store(int64(now + s.Shape.MaxDrain()))
}

// floor is the least level of the bucket of d by the table's TAT, if the store may know of less; see
// [bucket.Op].
func (s *Shared) floor(d sketch.Digest, tat uint64, now time.Duration) uint64 {
	if int64(now) >= s.doubt.Load() {
		return 0
	}
	ticks := s.Ticks(now)
	switch {
	case s.Logged:
		return s.Table.LatelyLogged(d, ticks)
	case s.windowed && s.Shape.Live(tat, ticks) && s.Shape.WindowOf(tat) > s.Shape.Window(ticks):
		return 0 // the store has not reached that window
	case s.Shape.Algorithm() == bucket.SlidingWindow:
		_, level := s.Shape.Counts(tat, ticks)
		return level
	}
	return s.Shape.Level(tat, ticks)
}
