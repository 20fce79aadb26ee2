package engine

import (
	"context"
	"time"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// The pipeline. A request of a rule goes through these steps until one of them
// decides, and the step that decides records it:
//
//	checkBan     denies a client that is banned
//	known        denies a client that the table knows to be over its limit (take has it inline)
//	screen       admits a client that is new to the filter or below its share in the sketch
//	exact        asks the client's exact bucket: the table, or the shared store
//
// take runs them for one rule, takeInSteps for one that is not plain or is filled, takeAll
// (charges.go) for several, attempt (attempt.go) for requests that may wait. peek asks the same
// questions and changes nothing.

// unread is the time of a request for which take has to read the clock.
const unread time.Duration = -1

// take decides on n units of one rule. For an unread request it reads the clock and picks
// the stripe here, so that Take is inlined and a call with nine arguments, a sixth of a
// denial, is spared (BenchmarkHotDenied).
func (r *Rule) take(ctx context.Context, key Key, n uint64, now time.Duration, at stripe) limit.Decision {
	r.check(key)
	if now == unread {
		now, at = r.buckets.Clock.Now(), stackStripe()
	}
	d := key.digest()
	if n == 0 {
		return r.peek(d, 0, now)
	}
	if !r.direct { // what the other paths need would take registers: 1 ns of 13
		v, _ := r.takeInSteps(ctx, key, n, false, now, at)
		return v
	}
	// Most clients have no bucket. If they ask for no more than the burst, the arithmetic is skipped (a
	// twentieth of BenchmarkDistinct).
	if set, marks := r.buckets.Table.LookupSet(d); marks != 0 || n > r.buckets.Shape.MaxCost() {
		// known, written out: a flooding client is denied without a call (a tenth of BenchmarkHotDenied).
		ticks, cost, tat := r.buckets.Shape.Ticks(now), r.buckets.Shape.Cost(n), uint64(0)
		if marks != 0 {
			if tat = r.buckets.Table.ProbeFirst(set, d); tat == 0 {
				tat = r.buckets.Table.ProbeRest(set, marks, d)
			}
		}
		if r.buckets.Shape.Exceeds(tat, ticks, cost) {
			if late := r.buckets.Clock.Late(now); late > now {
				// A reading that another one has overtaken does not convict; see clock.Clock.
				return r.take(ctx, key, n, late, at)
			}
			serial := r.counts.record(at, limit.StageTable, false)
			if r.talkers != nil && r.talkers.Drawn(serial, n) || uint32(d.ID) < r.sampled {
				return r.shed(d, n, serial, tat, ticks, cost, now)
			}
			if retry, empty, ok := r.buckets.Shape.Over(tat, ticks, cost); ok {
				return limit.Decision{Outcome: limit.Outcome{Stage: limit.StageTable}, RetryAfter: retry, TimeToEmpty: empty}
			}
			return r.buckets.LeakyDecision(limit.StageTable, false, tat, now, cost)
		}
	}
	if stage := r.screen(key, n, now, at); stage != limit.StageExact {
		return admitUnchecked(stage)
	}
	return r.exact(ctx, key, n, now, at)
}

// takeInSteps is take for rules that count in windows, keep logs or ban, with nothing
// inlined. It returns how many units were taken: with upTo as many as fit, else all
// or none. A table that has no room for one unit denies. If it has room for some, the exact
// bucket decides.
func (r *Rule) takeInSteps(ctx context.Context, key Key, n uint64, upTo bool, now time.Duration, at stripe) (limit.Decision, uint64) {
	least := n
	if upTo {
		least = 1
	}
	d := key.digest()
	if r.bans != nil {
		if v, denied := r.checkBan(d, least, now, at); denied {
			return v, 0
		}
	}
	if v, denied := r.known(d, least, now); denied {
		return r.deny(key, v, least, now, at), 0
	}
	if stage := r.screen(key, n, now, at); stage != limit.StageExact {
		return admitUnchecked(stage), n
	}
	if !upTo {
		return r.exact(ctx, key, n, now, at), n
	}
	v, taken := r.charge(ctx, key, n, true, now)
	return r.conclude(key, v, now, at), taken
}

// deny records a denial by the table, and counts it towards a ban.
func (r *Rule) deny(key Key, v limit.Decision, n uint64, now time.Duration, at stripe) limit.Decision {
	if r.bans != nil && n > 0 {
		v = r.convict(key, v, now)
	}
	r.recordDenial(key.digest(), n, v.Stage, at)
	return v
}

// known denies a request that does not fit the client's bucket in the table. It charges nothing. Everything else
// is skipped for a flooding client. take has it inlined. Tests break if either lets a late reading convict
// (TestConformsInOrderOfReadings).
func (r *Rule) known(d sketch.Digest, n uint64, now time.Duration) (v limit.Decision, denied bool) {
	b := &r.buckets
	ticks, cost, tat := b.Ticks(now), b.Shape.Cost(n), b.Lookup(d, now)
	if b.Fits(d, tat, ticks, cost) || !b.MayDeny(tat, ticks) {
		return limit.Decision{}, false
	}
	// A reading that another one has overtaken does not convict; see clock.Clock.
	if late := b.Clock.Late(now); late > now {
		if now, ticks = late, b.Ticks(late); b.Fits(d, tat, ticks, cost) || !b.MayDeny(tat, ticks) {
			return limit.Decision{}, false
		}
	}
	if uint32(d.ID) < r.sampled {
		r.denyAudited(d, ticks, cost)
	}
	if retry, empty, ok := b.Shape.Over(tat, ticks, cost); ok && b.Plain {
		return limit.Decision{Outcome: limit.Outcome{Stage: limit.StageTable}, RetryAfter: retry, TimeToEmpty: empty}, true
	}
	return b.Decision(d, limit.StageTable, false, tat, now, cost), true
}

// denies reports whether checkBan or known would deny.
func (r *Rule) denies(d sketch.Digest, n uint64, now time.Duration) bool {
	if _, banned := r.banned(d, now); banned {
		return true
	}
	b := &r.buckets
	now = b.Clock.Late(now)
	ticks, tat := b.Ticks(now), b.Lookup(d, now)
	return !b.Fits(d, tat, ticks, b.Shape.Cost(n)) && b.MayDeny(tat, ticks)
}

// recordDenial records a denial that has asked neither filter nor sketch.
func (r *Rule) recordDenial(d sketch.Digest, n uint64, stage limit.Stage, at stripe) {
	if serial := r.counts.record(at, stage, false); r.talkers != nil && r.talkers.Drawn(serial, n) {
		r.talkers.Shed(d, n)
	}
}

// screen returns the stage that admits a request without an exact check, or
// StageExact if it has to be checked.
func (r *Rule) screen(key Key, n uint64, now time.Duration, at stripe) limit.Stage {
	d := key.digest()
	if uint32(d.ID) < r.sampled && at < inVisit {
		return r.screenAudited(key, n, now, at)
	}
	// Every hit marks the filter, also one whose cost is too high for the
	// filter to admit. Otherwise a client that sends both kinds would pass
	// uncounted once in each window while its level has not drained, which
	// breaks P2 (a).
	if r.filter != nil && r.filter.FirstSeen(d, now) && n <= uint64(r.scale) {
		r.counts.record(at, limit.StageFilter, true)
		return limit.StageFilter
	}
	slot := -1
	if r.talkers != nil {
		// Before the sketch, whose atomic adds block later loads, so that the two cache misses overlap
		// (BenchmarkTalkers).
		slot = r.talkers.Find(d)
	}
	stage := limit.StageExact
	if r.sketch != nil && r.sketch.Add(d, r.buckets.SketchTicks(now), r.buckets.Shape.Cost(n)) < r.threshold {
		r.counts.record(at, limit.StageSketch, true)
		stage = limit.StageSketch
	}
	if r.next.any.Load() {
		r.chargeSuccessors(d, n, now)
	}
	switch {
	case slot >= 0:
		r.talkers.AddTo(slot, n)
	case r.talkers != nil:
		r.insertTalker(key, n)
	}
	return stage
}

// exact decides by the exact bucket.
func (r *Rule) exact(ctx context.Context, key Key, n uint64, now time.Duration, at stripe) limit.Decision {
	var v limit.Decision
	if r.shared == nil && uint32(key.digest().ID) >= r.sampled { // charge, written out: 3 ns of 70
		v = r.buckets.Take(key.digest(), r.buckets.Shape.Cost(n), now)
	} else {
		v, _ = r.charge(ctx, key, n, false, now)
	}
	return r.conclude(key, v, now, at)
}

// charge charges the exact bucket and returns how many units it took: with upTo as many of n as fit. It waits
// for a shared bucket until the timeout after now.
func (r *Rule) charge(ctx context.Context, key Key, n uint64, upTo bool, now time.Duration) (v limit.Decision, taken uint64) {
	switch cost := r.buckets.Shape.Cost(n); {
	case uint32(key.digest().ID) < r.sampled:
		return r.takeAudited(key.digest(), n, upTo, now)
	case upTo && r.shared != nil:
		return r.shared.TakeUpTo(ctx, r.client(key), n, now, r.config.OnFailure)
	case upTo:
		return r.buckets.TakeUpTo(key.digest(), n, now)
	case r.shared != nil:
		v = r.shared.Take(ctx, r.client(key), cost, now, r.config.OnFailure)
	default:
		v = r.buckets.Take(key.digest(), cost, now)
	}
	if v.Allowed {
		taken = n
	}
	return v, taken
}

// conclude records a decision of the exact tier, and counts a denial towards a ban.
func (r *Rule) conclude(key Key, v limit.Decision, now time.Duration, at stripe) limit.Decision {
	if !v.Allowed && r.bans != nil {
		v = r.convictExact(key, v, now)
	}
	r.counts.record(at, v.Stage, v.Allowed)
	return v
}

// admitUnchecked admits a request without asking its exact bucket.
func admitUnchecked(stage limit.Stage) limit.Decision {
	return limit.Decision{Outcome: limit.Outcome{Allowed: true, Stage: stage}, Remaining: limit.RemainingUnknown}
}

// peek is take without its effects.
func (r *Rule) peek(d sketch.Digest, n uint64, now time.Duration) limit.Decision {
	if v, banned := r.banned(d, now); banned {
		return v
	}
	b := &r.buckets
	ticks, cost := b.Ticks(now), b.Shape.Cost(n)
	tat := b.Lookup(d, now)
	fits := b.Fits(d, tat, ticks, cost)
	switch {
	case !fits || b.Shape.Live(tat, ticks) || b.Logged && b.Table.LogUntil(d) > ticks: // a log that is not full says nothing
		return b.Decision(d, limit.StageTable, fits, tat, now, cost)
	case r.filter != nil && n <= uint64(r.scale) && !r.filter.Known(d):
		return admitUnchecked(limit.StageFilter)
	case r.sketch != nil && r.sketch.Level(d, b.SketchTicks(now))+cost < r.threshold:
		return admitUnchecked(limit.StageSketch)
	}
	return b.Decision(d, limit.StageExact, true, tat, now, cost)
}
