package fastlimit

import (
	"context"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/window"
)

// Rule is one limit of a [Limiter]. It is safe for concurrent use.
type Rule struct {
	// Immutable after New, so that all cores share these lines. What every
	// request reads stands together and within the rule: behind HTTP the
	// kernel has taken the caches, and each line costs some 60 ns anew.
	limiter          *Limiter
	enforced         bool // not in shadow mode
	stored           bool // shared != nil
	bits4, bits6     uint8
	mask4            uint32
	mask6hi, mask6lo uint64
	hasher           sketch.Hasher
	tag              uint64 // of its keys, in the upper half
	others           uint32 // ^tag: what only a key with that tag makes all ones

	shape     bucket.Shape
	threshold uint64 // θ·B·T in ticks, rounded down: towards suspicion
	counts    *counters
	filter    *window.Filter // nil: every request goes on to the sketch
	sketch    *sketch.Leaky  // &cells; nil: every request is checked exactly
	cells     sketch.Leaky
	talkers   *sketch.TopTalkers // nil: top talkers are not tracked
	shared    *shared            // nil: the table is the exact tier
	table     bucket.Table

	index  int // in Limiter.rules
	cost   uint64
	config RuleConfig
	epoch  time.Duration // see Epoch
}

// Name is the rule's name.
func (r *Rule) Name() string { return r.config.Name }

// Index is the rule's place in [Config.Rules].
func (r *Rule) Index() int { return r.index }

// Config is the rule's configuration with defaults filled in.
func (r *Rule) Config() RuleConfig { return r.config }

// Allow takes the rule's cost for key now and reports whether the request is
// admitted. A shadow rule admits everything.
func (r *Rule) Allow(key Key) bool {
	r.check(key)
	c := &r.limiter.clock
	d := r.take(context.Background(), key, r.cost, c.follow(c.read()), ownLane())
	return d.Allowed || !r.enforced
}

// Take takes n units for key now. It does not allocate, nor wait, unless a
// suspect has to be looked up in a shared exact tier ([Config.Store]); then it
// waits for no longer than [Config.StoreTimeout]. A request whose ctx ends
// while it waits is denied, whatever the failure policy, and what the store
// grants it is given back: the decision has stage exact and Remaining [Unknown].
// A denied request takes nothing. The decision is what the rule would do if enforced:
// minding its mode is up to the caller. n = 0 asks like [Rule.Peek].
func (r *Rule) Take(ctx context.Context, key Key, n uint64) Decision {
	r.check(key)
	c := &r.limiter.clock
	return r.take(ctx, key, n, c.follow(c.read()), ownLane())
}

// TakeAt is Take at a time that the caller brings: the time since an arbitrary
// start, on one clock for all calls to a limiter. A time older than the latest
// brought counts as the latest and changes nothing for anybody. So bring a
// monotonic clock: with one that is set back by an hour no bucket leaks for an
// hour, and after a single time that is an hour ahead all others count as that
// one for an hour. Times before 0 count as 0. TakeAt panics on one past
// [Limiter.LastTime], at the earliest four years. With a shared exact tier
// requests wait by the limiter's own clock: there all At forms panic.
func (r *Rule) TakeAt(ctx context.Context, key Key, n uint64, now time.Duration) Decision {
	r.check(key)
	if r.stored {
		panicAt("TakeAt", "Take")
	}
	if !r.limiter.clock.isLatest(now) { // inlined, where settle is not
		now = r.limiter.clock.settle(now)
	}
	return r.take(ctx, key, n, now, ownLane())
}

// Peek tells whether n units would be admitted now as far as this node knows,
// and takes nothing.
func (r *Rule) Peek(key Key, n uint64) Decision {
	r.check(key)
	return r.peek(key.digest(), n, r.limiter.now())
}

// PeekAt is Peek at a time that the caller brings; see [Rule.TakeAt]. It may
// look ahead: times after it do not count as this one.
func (r *Rule) PeekAt(key Key, n uint64, now time.Duration) Decision {
	r.check(key)
	if r.stored {
		panicAt("PeekAt", "Peek")
	}
	return r.peek(key.digest(), n, r.limiter.clock.ahead(now))
}

// panicAt stops whoever brings times to a limiter that cannot use them.
func panicAt(name, instead string) {
	panic("BUG: fastlimit: " + name + " on a limiter with a Store, which keeps time by itself: call " + instead)
}

// Refund gives back n units that were taken for key, as far as its exact
// bucket still holds them. Give back only what was taken, and soon: P2 counts
// a request that was given back as one that was never made.
//
// With a shared exact tier the units are back in this node's table at once, and
// in the store after what is on its way there. They may be lost if the store is
// away or takes longer than [Config.StoreTimeout]: then the client stays
// charged. Other nodes go on denying what they knew of until it has leaked.
func (r *Rule) Refund(key Key, n uint64) {
	r.check(key)
	r.giveBack(key, r.shape.Cost(n), r.limiter.now())
}

// RefundAt is Refund at a time that the caller brings; see [Rule.TakeAt].
func (r *Rule) RefundAt(key Key, n uint64, now time.Duration) {
	r.check(key)
	if r.stored {
		panicAt("RefundAt", "Refund")
	}
	r.giveBack(key, r.shape.Cost(n), r.limiter.clock.settle(now))
}

func (r *Rule) giveBack(key Key, cost uint64, now time.Duration) {
	if r.shared != nil {
		r.shared.giveBack(key, cost)
		return
	}
	r.table.Refund(key.digest(), r.shape.Ticks(now), cost)
}

// Reset empties the exact bucket of key: whoever was denied is admitted
// again. Its sketch cells are shared with others and keep their levels.
//
// With a shared exact tier the bucket is empty in this node's table at once,
// and in the store after what is on its way there; neither answers that are
// under way nor what other nodes remember fill it again. A reset is lost if the
// store is away. Other nodes go on denying what they knew of until it has
// leaked, for at most the time in which the bucket drains: reset it there too.
func (r *Rule) Reset(key Key) {
	r.check(key)
	if r.shared != nil {
		r.shared.reset(key)
		return
	}
	r.table.Reset(key.digest())
}

// ResetAt is Reset at a time that the caller brings; see [Rule.TakeAt].
func (r *Rule) ResetAt(key Key, now time.Duration) {
	r.check(key)
	if r.stored {
		panicAt("ResetAt", "Reset")
	}
	r.limiter.clock.settle(now)
	r.table.Reset(key.digest())
}

// take is the whole decision: table, filter, sketch, exact.
func (r *Rule) take(ctx context.Context, key Key, n uint64, now time.Duration, at lane) Decision {
	d := key.digest()
	if n == 0 {
		return r.peek(d, n, now)
	}
	ticks, cost, tat := r.shape.Ticks(now), r.shape.Cost(n), uint64(0)
	if x, marks := r.table.Place(d); marks != 0 {
		if tat = r.table.First(x, d); tat == 0 {
			tat = r.table.Further(x, marks, d)
		}
	}
	if !r.shape.Fits(tat, ticks, cost) {
		late := r.limiter.clock.latest.Load()
		if late <= int64(now) {
			// A flood gets to here without a call.
			if serial := r.counts.add(at, StageTable, false); r.talkers != nil {
				r.shed(d, n, serial)
			}
			if retry, empty, ok := r.shape.Over(tat, ticks, cost); ok {
				return Decision{Outcome: Outcome{Stage: StageTable}, RetryAfter: retry, TimeToEmpty: empty}
			}
			return r.denied(StageTable, tat, ticks, cost)
		}
		// A reading that was overtaken does not convict; see clock.
		return r.take(ctx, key, n, time.Duration(late), at)
	}
	if stage := r.unchecked(at, key, n, now, ticks); stage != StageExact {
		return passed(stage)
	}
	return r.exact(ctx, at, key, cost, now, now+r.limiter.plan.timeout)
}

// shed notes a denial by the table among the top talkers, if it is drawn. Not
// inlined: what it computes would take registers from every denial (a sixth of
// BenchmarkHotDenied).
//
//go:noinline
func (r *Rule) shed(d sketch.Digest, n, serial uint64) {
	if r.talkers.Drawn(serial, n) {
		r.talkers.Shed(d, n)
	}
}

// unchecked tells the stage at which a request that the table does not turn
// away may pass without an exact check, or StageExact if it may not.
// Its arguments fit the registers; with the cost they would not.
func (r *Rule) unchecked(at lane, key Key, n uint64, now time.Duration, ticks uint64) Stage {
	d := key.digest()
	// Every hit marks the filter, also one that is too dear to pass by it:
	// else a client that sends both kinds would pass uncounted once in each
	// window while its level has not drained, which breaks P2 (a).
	if r.filter != nil && r.filter.FirstSeen(d, now) && n == 1 {
		r.counts.add(at, StageFilter, true)
		return StageFilter
	}
	slot := -1
	if r.talkers != nil {
		// Before the sketch, whose atomic adds let no load past: so the two
		// cache misses are one (BenchmarkTalkers).
		slot = r.talkers.Find(d)
	}
	stage := StageExact
	if r.sketch != nil && r.sketch.Add(d, ticks, r.shape.Cost(n)) < r.threshold {
		r.counts.add(at, StageSketch, true)
		stage = StageSketch
	}
	if r.talkers != nil {
		r.tally(key, slot, n)
	}
	return stage
}

// exact decides by the exact bucket, waiting for a shared one until deadline.
func (r *Rule) exact(ctx context.Context, at lane, key Key, cost uint64, now, deadline time.Duration) Decision {
	var d Decision
	if r.shared != nil {
		d = r.shared.take(ctx, key, cost, deadline)
	} else {
		d = r.takeLocal(key.digest(), cost, now)
	}
	r.counts.add(at, d.Stage, d.Allowed)
	return d
}

// takeLocal takes from the table.
func (r *Rule) takeLocal(d sketch.Digest, cost uint64, now time.Duration) Decision {
	for {
		ticks := r.shape.Ticks(now)
		tat, ok := r.table.Take(d, ticks, cost)
		if ok {
			return r.allowed(StageExact, tat, ticks)
		}
		// Whoever charged d last may have read the clock later than this
		// request. Trying again ends: each time another one was admitted.
		late := r.limiter.clock.late(now)
		if late == now || !r.shape.Fits(tat, r.shape.Ticks(late), cost) {
			return r.denied(StageExact, tat, r.shape.Ticks(late), cost)
		}
		now = late
	}
}

func (r *Rule) peek(d sketch.Digest, n uint64, now time.Duration) Decision {
	ticks, cost := r.shape.Ticks(now), r.shape.Cost(n)
	tat := r.table.Lookup(d)
	switch {
	case !r.shape.Fits(tat, ticks, cost):
		return r.denied(StageTable, tat, ticks, cost)
	case tat > ticks:
		return r.allowed(StageTable, tat, ticks)
	case r.filter != nil && n <= 1 && !r.filter.Known(d):
		return passed(StageFilter)
	case r.sketch != nil && r.sketch.Level(d, ticks)+cost < r.threshold:
		return passed(StageSketch)
	}
	return r.allowed(StageExact, tat, ticks)
}

// passed admits without an exact bucket.
func passed(stage Stage) Decision {
	return Decision{Outcome: Outcome{Allowed: true, Stage: stage}, Remaining: Unknown}
}

// allowed admits by an exact bucket.
func (r *Rule) allowed(stage Stage, tat, ticks uint64) Decision {
	return Decision{
		Outcome:     Outcome{Allowed: true, Stage: stage},
		Remaining:   int64(r.shape.Remaining(tat, ticks)),
		TimeToEmpty: r.shape.TimeToEmpty(tat, ticks),
	}
}

func (r *Rule) denied(stage Stage, tat, ticks, cost uint64) Decision {
	return Decision{
		Outcome:     Outcome{Stage: stage},
		Remaining:   int64(r.shape.Remaining(tat, ticks)),
		RetryAfter:  r.shape.RetryAfter(tat, ticks, cost),
		TimeToEmpty: r.shape.TimeToEmpty(tat, ticks),
	}
}

// sketchLimit is the level at which cells stop rising: above every level that
// P2 allows a client, with room for 64 decisions in flight at each node. A
// client beyond that is suspected for as long as it takes to leak from here.
func (r *Rule) sketchLimit(rp *RulePlan) uint64 {
	const inFlight = 64
	limit := r.threshold + r.shape.Limit() + r.shape.Grace() + (1+inFlight)*r.shape.Unit()
	if rp.nodes > 1 {
		limit = max(limit, rp.clusterLevel(inFlight))
	}
	return limit
}

func (r *Rule) setPrefixes() {
	r.bits4, r.bits6 = uint8(r.config.IPv4Prefix), uint8(r.config.IPv6Prefix)
	r.mask4 = ^uint32(0) << (32 - r.bits4)
	r.mask6hi = ^uint64(0)
	if r.bits6 <= 64 {
		r.mask6hi <<= 64 - r.bits6
	} else {
		r.mask6lo = ^uint64(0) << (128 - r.bits6)
	}
}
