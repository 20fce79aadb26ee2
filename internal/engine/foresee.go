package engine

import (
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// Foresight is what can be predicted about a request.
type Foresight struct {
	// Decision is what the request would get, by the stage that would decide. Remaining is what fits before
	// it. If a denial would begin a ban, the ban lasts longer.
	Decision limit.Decision
	// Unsure reports that the shared store would decide, which was not asked. Decision is then by this node's
	// table.
	Unsure bool
	// Waits reports that the request would wait in the queue for RetryAfter, if it may wait.
	Waits bool
	// Level is what the client's exact bucket holds in this node's table, in units.
	Level float64
	// Suspicion is the sketch's estimate of the client and of others in its cells, as a share of the
	// threshold: from 1 on it is checked exactly. -1 without a sketch.
	Suspicion float64
}

// Foresee returns what a request of n units would get. It changes nothing.
func (r *Rule) Foresee(key Key, n uint64) Foresight {
	r.check(key)
	now := r.time()
	d, b := key.digest(), &r.buckets
	tat, cost, share := b.Lookup(d, now), b.Shape.Cost(n), uint64(0)
	f := Foresight{Suspicion: -1}
	held := b.Decision(d, limit.StageExact, true, tat, now, 0)
	if f.Level = float64(r.config.Burst) - float64(held.Remaining); b.Plain {
		f.Level = held.TimeToEmpty.Seconds() * r.config.Rate.PerSecond()
	}
	if r.sketch != nil {
		share = r.sketch.Level(d, b.SketchTicks(now))
		f.Suspicion = float64(share) / float64(r.threshold)
	}
	banned, isBanned := r.banned(d, now)
	known, isKnown := r.known(d, n, now)
	switch { // the pipeline's steps, without their effects
	case isBanned:
		f.Decision = banned
	case isKnown:
		f.Decision = known
	case r.filter != nil && n <= uint64(r.scale) && !r.filter.Known(d):
		f.Decision = admitUnchecked(limit.StageFilter)
	case r.sketch != nil && share+cost < r.threshold:
		f.Decision = admitUnchecked(limit.StageSketch)
	default:
		f.Decision = b.Decision(d, limit.StageExact, b.Fits(d, tat, b.Ticks(now), cost), tat, now, cost)
		f.Unsure = r.shared != nil
	}
	r.foreseeWait(&f, key, n, now)
	return f
}

// foreseeWait determines whether the request would wait. It would also wait behind others if it fits.
func (r *Rule) foreseeWait(f *Foresight, key Key, n uint64, now time.Duration) {
	if r.queues == nil || n == 0 || f.Decision.Stage == limit.StageBan {
		return
	}
	c := Charge{r, key, n}
	if d, denied := c.behind(f.Decision, !f.Decision.Allowed, now); denied {
		f.Waits = c.mayWait(&d) && d.RetryAfter <= r.config.MaxWait && r.queues.Room(key.digest(), r.limiter.waitLimits)
		f.Decision = d
	}
}
