package fastlimit

import (
	"context"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// The pipeline. A request of a rule goes through these steps until one of them
// decides, and the step that decides records it:
//
//	checkBan     denies a client that is banned
//	checkTable   denies a client that the table knows to be over its limit (take has it inline)
//	screen       admits whoever is new to the filter or below its share in the sketch
//	exact        asks the client's exact bucket: the table, or the shared store
//
// take runs them for one rule, takeAll (charges.go) for several. peek asks the
// same questions and changes nothing.

// unread is the time of a request for which take is to read the clock.
const unread time.Duration = -1

// take decides on n units of one rule. It reads the clock and picks the stripe
// by itself for a request that is unread: so Take is inlined, and a call with
// nine arguments, a sixth of a denial, is spared (BenchmarkHotDenied).
func (r *Rule) take(ctx context.Context, key Key, n uint64, now time.Duration, at stripe) Decision {
	r.check(key)
	if now == unread {
		now, at = r.buckets.Clock.Now(), stackStripe()
	}
	d := key.digest()
	if n == 0 {
		return r.peek(d, 0, now)
	}
	if !r.direct { // what others need in between would take registers: 1 ns of 13
		return r.takeInSteps(ctx, key, n, now, at)
	}
	// Most clients have no bucket: if they ask for no more than the burst, the
	// arithmetic is spared (a twentieth of BenchmarkDistinct).
	if set, marks := r.buckets.Table.LookupSet(d); marks != 0 || n > r.buckets.Shape.MaxCost() {
		// checkTable, written out: a flooding client is denied without a call
		// (a tenth of BenchmarkHotDenied).
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
			if serial := r.counts.record(at, StageTable, false); r.talkers != nil {
				r.recordShed(d, n, serial)
			}
			if retry, empty, ok := r.buckets.Shape.Over(tat, ticks, cost); ok {
				return Decision{Outcome: Outcome{Stage: StageTable}, RetryAfter: retry, TimeToEmpty: empty}
			}
			return r.buckets.LeakyDecision(StageTable, false, tat, now, cost)
		}
	}
	if stage := r.screen(key, n, now, at); stage != StageExact {
		return admitUnchecked(stage)
	}
	return r.exact(ctx, key, n, now, at)
}

// takeInSteps is take for rules that count in windows, keep logs or ban, nothing written
// out.
func (r *Rule) takeInSteps(ctx context.Context, key Key, n uint64, now time.Duration, at stripe) Decision {
	if v, denied := r.checkBan(key.digest(), n, now, at); denied {
		return v
	}
	if v, denied := r.checkTable(key, n, now, at); denied {
		return v
	}
	if stage := r.screen(key, n, now, at); stage != StageExact {
		return admitUnchecked(stage)
	}
	return r.exact(ctx, key, n, now, at)
}

// checkTable denies what does not fit the bucket that the table holds, if it
// holds one, by reading alone. A flooding client gets no further. It is for
// requests of several rules: take has it written out. Tests break if either
// lets a late reading convict (TestConformsInOrderOfReadings).
func (r *Rule) checkTable(key Key, n uint64, now time.Duration, at stripe) (v Decision, denied bool) {
	b, d, read := &r.buckets, key.digest(), now
	ticks, cost, tat := b.Ticks(now), b.Shape.Cost(n), b.Lookup(d, now)
	if b.Fits(d, tat, ticks, cost) || !b.DenialStands(tat, ticks) {
		return Decision{}, false
	}
	// A reading that another one has overtaken does not convict; see clock.Clock.
	if late := b.Clock.Late(now); late > now {
		if now, ticks = late, b.Ticks(late); b.Fits(d, tat, ticks, cost) || !b.DenialStands(tat, ticks) {
			return Decision{}, false
		}
	}
	if retry, empty, ok := b.Shape.Over(tat, ticks, cost); ok && b.Plain {
		v = Decision{Outcome: Outcome{Stage: StageTable}, RetryAfter: retry, TimeToEmpty: empty}
	} else {
		v = b.Decision(d, StageTable, false, tat, now, cost)
	}
	if r.bans != nil && n > 0 {
		v = r.convict(key, v, read)
	}
	r.recordDenial(d, n, v.Stage, at)
	return v, true
}

// recordDenial records a denial that has asked neither filter nor sketch.
func (r *Rule) recordDenial(d sketch.Digest, n uint64, stage Stage, at stripe) {
	if serial := r.counts.record(at, stage, false); r.talkers != nil {
		r.recordShed(d, n, serial)
	}
}

// screen returns the stage that admits a request without an exact check, or
// StageExact if none does.
func (r *Rule) screen(key Key, n uint64, now time.Duration, at stripe) Stage {
	d := key.digest()
	// Every hit marks the filter, also one whose cost is too high for the
	// filter to admit. Otherwise a client that sends both kinds would pass
	// uncounted once in each window while its level has not drained, which
	// breaks P2 (a).
	if r.filter != nil && r.filter.FirstSeen(d, now) && n <= uint64(r.scale) {
		r.counts.record(at, StageFilter, true)
		return StageFilter
	}
	slot := -1
	if r.talkers != nil {
		// Before the sketch, whose atomic adds let no load past them: so the
		// two cache misses overlap (BenchmarkTalkers).
		slot = r.talkers.Find(d)
	}
	stage := StageExact
	if r.sketch != nil && r.sketch.Add(d, r.buckets.SketchTicks(now), r.buckets.Shape.Cost(n)) < r.threshold {
		r.counts.record(at, StageSketch, true)
		stage = StageSketch
	}
	if r.next.any.Load() {
		r.tellNext(d, n, now)
	}
	if r.talkers != nil {
		r.recordTalker(key, slot, n)
	}
	return stage
}

// exact decides by the exact bucket. It waits for a shared one until its
// timeout after now.
func (r *Rule) exact(ctx context.Context, key Key, n uint64, now time.Duration, at stripe) Decision {
	var v Decision
	if cost := r.buckets.Shape.Cost(n); r.shared != nil {
		v = r.takeShared(ctx, key, cost, now)
	} else {
		v = r.buckets.Take(key.digest(), cost, now)
	}
	if !v.Allowed && r.bans != nil {
		v = r.convictExact(key, v, now)
	}
	r.counts.record(at, v.Stage, v.Allowed)
	return v
}

// takeShared decides by the client's bucket in the shared store.
func (r *Rule) takeShared(ctx context.Context, key Key, cost uint64, now time.Duration) Decision {
	return r.shared.Take(ctx, r.client(key), cost, now, r.config.OnFailure)
}

// admitUnchecked admits a request without asking its exact bucket.
func admitUnchecked(stage Stage) Decision {
	return Decision{Outcome: Outcome{Allowed: true, Stage: stage}, Remaining: RemainingUnknown}
}

// peek is take without its effects.
func (r *Rule) peek(d sketch.Digest, n uint64, now time.Duration) Decision {
	if v, banned := r.banned(d, now); banned {
		return v
	}
	b := &r.buckets
	ticks, cost := b.Ticks(now), b.Shape.Cost(n)
	tat := b.Lookup(d, now)
	fits := b.Fits(d, tat, ticks, cost)
	switch {
	case !fits || b.Shape.Live(tat, ticks) || b.Logged && b.Table.LogUntil(d) > ticks: // whose word tells nothing while it is not full
		return b.Decision(d, StageTable, fits, tat, now, cost)
	case r.filter != nil && n <= uint64(r.scale) && !r.filter.Known(d):
		return admitUnchecked(StageFilter)
	case r.sketch != nil && r.sketch.Level(d, b.SketchTicks(now))+cost < r.threshold:
		return admitUnchecked(StageSketch)
	}
	return b.Decision(d, StageExact, true, tat, now, cost)
}

// recordShed notes a denial by the table among the top talkers, if chance draws
// it. Not inlined: what it computes would take registers from every denial (a
// sixth of BenchmarkHotDenied).
//
//go:noinline
func (r *Rule) recordShed(d sketch.Digest, n, serial uint64) {
	if r.talkers.Drawn(serial, n) {
		r.talkers.Shed(d, n)
	}
}
