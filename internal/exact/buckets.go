package exact

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/clock"
	"github.com/fastlimit/fastlimit/sketch"
)

// Buckets are the exact buckets of one limit on this node. What the node decides by them alone is decided here;
// [Shared] asks the store. An algorithm is a [bucket.Shape] with a table, not a copy of this code. Copies share
// the buckets.
type Buckets struct {
	Clock       *clock.Clock
	windowed    bool // Shape.Windowed()
	Logged      bool // Shape.Logged()
	Plain       bool // neither: a bucket
	countDenied bool // in windows
	Shape       bucket.Shape
	Table       bucket.Table // made by its owner, in that shape
}

// SetLimit sets what the buckets hold, and whether denied requests count in windows.
func (b *Buckets) SetLimit(c *clock.Clock, shape bucket.Shape, countDenied bool) {
	b.Clock, b.Shape, b.windowed, b.Logged = c, shape, shape.Windowed(), shape.Logged()
	b.Plain, b.countDenied = !b.windowed && !b.Logged, countDenied
}

// Ticks converts a time on the limiter's line.
func (b *Buckets) Ticks(now time.Duration) uint64 {
	if b.windowed {
		return b.windowTicks(now)
	}
	return b.Shape.Ticks(now)
}

// SketchTicks converts a time on the limiter's line for the sketch.
func (b *Buckets) SketchTicks(now time.Duration) uint64 {
	if !b.Plain {
		return b.sketchWindow(now)
	}
	return b.Shape.Ticks(now)
}

//go:noinline
func (b *Buckets) sketchWindow(now time.Duration) uint64 { return b.Shape.SketchTicks(b.Ticks(now)) }

//go:noinline
func (b *Buckets) windowTicks(now time.Duration) uint64 {
	return b.Shape.WindowTicks(b.Clock.WallTime(now))
}

// Lookup returns the TAT of d in the table, for a request judged at now. A window that has not begun was
// counted before the store's first answer set the line back (see [clock.Clock.ObserveStore]). It is ignored,
// or the client would be denied until it begins.
func (b *Buckets) Lookup(d sketch.Digest, now time.Duration) uint64 {
	tat := b.Table.Lookup(d)
	if b.windowed && b.Clock.FollowsStore() && b.Shape.WindowOf(tat) > b.Shape.Window(b.Ticks(now)) &&
		b.Shape.WindowOf(tat) > b.Shape.Window(b.Ticks(b.Clock.Read().Now)) { // now may be an old reading
		b.Table.Reset(d)
		return 0
	}
	return tat
}

// Fits reports whether a request fits the bucket of d, whose TAT is tat, as far as this node knows. A log's
// word answers that for one unit only.
func (b *Buckets) Fits(d sketch.Digest, tat, ticks, cost uint64) bool {
	return b.Shape.Fits(tat, ticks, cost) && (!b.Logged || cost <= 1 || tat == 0 || b.Table.LogFits(d, ticks, cost))
}

// MayDeny reports whether the table may deny by a bucket with that TAT. A denial that itself counts goes
// to the exact bucket, unless it changes nothing there.
func (b *Buckets) MayDeny(tat, ticks uint64) bool {
	return !b.countDenied || b.Shape.Full(tat, ticks)
}

// Unspent returns how much of a cost that was charged at since is still in a bucket at now, whatever else was
// charged to it.
func (b *Buckets) Unspent(cost uint64, since, now time.Duration) uint64 {
	then, ticks := b.Ticks(min(since, now)), b.Ticks(now)
	switch {
	case b.Plain:
		return cost - min(cost, ticks-then)
	case b.windowed && b.Shape.Window(then) == b.Shape.Window(ticks):
		return cost
	}
	return 0 // a log would drop its latest units, which count longer than those
}

// Until returns how long it takes until cost and ahead fit the bucket of d, as far as this node knows and if
// nothing else arrives.
func (b *Buckets) Until(d sketch.Digest, ahead, cost uint64, now time.Duration) time.Duration {
	if cost > b.Shape.Limit() {
		return bucket.Never
	}
	level := bucket.Level(b.Table.Lookup(d), b.Shape.Ticks(now)) + ahead + cost
	if most := b.Shape.Most(); level > most {
		return b.Shape.Duration(level - most)
	}
	return 0
}
