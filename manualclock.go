package fastlimit

import (
	"time"

	"github.com/fastlimit/fastlimit/internal/clock"
)

// ManualClock is a clock that moves only when it is told to: for tests, and for
// judging what has happened before, such as a log. Put it into [Config.Clock].
// It tells the time since an arbitrary start; the zero value stands at 0. It is
// safe for concurrent use, and several limiters may share one.
type ManualClock struct{ clock clock.Clock }

// Set moves the clock to now, for all calls from then on. A time older than the
// latest one moves nothing: so bring a monotonic clock. With one that is set
// back by an hour no bucket leaks for an hour, and after a single time that is
// an hour ahead nothing leaks for an hour. Set panics on a time past
// [Limiter.LastTime], at the earliest four years.
func (c *ManualClock) Set(now time.Duration) { c.clock.Set(now) }

// Now is the time that the clock was set to last.
func (c *ManualClock) Now() time.Duration { return c.clock.Latest() }

// SetStart says at which wall time the clock stood at 0, for rules that count in
// windows: those begin by the wall time. Without it the clock's 0 is 1970-01-01
// 00:00 UTC. Set it before the clock moves; later only to a later time: one that
// is earlier slows windows down.
func (c *ManualClock) SetStart(t time.Time) { c.clock.SetStart(t) }
