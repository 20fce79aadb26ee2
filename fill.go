package fastlimit

import (
	"context"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// TakeUpTo takes as many of n units for key as fit, and returns how many: it
// fills the client's bucket to the brim where [Rule.Take] would take nothing. It
// takes whole units, or [RuleConfig].Thousandths of one, and what is above the rule's burst never fits.
//
// The decision is Allowed if any unit was taken, and describes the bucket
// afterwards: the level is the burst less Remaining, or to the µs what leaks in
// TimeToEmpty. Only an exact bucket knows it: below suspicion all n units are
// taken and Remaining is [RemainingUnknown], so a caller that needs the level each
// time sets [RuleConfig].Strict. RetryAfter is the time until one unit fits if
// none did.
//
// It waits for a shared exact tier as Take does, and what is left to the failure
// policy is all n units with FailOpen and none with FailClosed. n = 0 asks like
// [Rule.Peek].
//
// Promises: what is taken counts as a request of that many units, so P2 holds for
// any mix of Take and TakeUpTo, and P1 says that a client gets at least what
// conforms. All n units count towards suspicion, taken or not, and with
// [RuleConfig].CountDenied in a sliding window too.
func (r *Rule) TakeUpTo(ctx context.Context, key Key, n uint64) (d Decision, taken uint64) {
	r.check(key)
	return r.takeUpTo(ctx, key, min(n, r.shape.MaxCost()), r.clock.Now(), stackStripe())
}

// takeUpTo is take for as many of n units as fit, n being no more than the burst.
// A table that has no room for one unit denies; one that has room for some is
// asked exactly.
func (r *Rule) takeUpTo(ctx context.Context, key Key, n uint64, now time.Duration, at stripe) (Decision, uint64) {
	d := key.digest()
	if n == 0 {
		return r.peek(d, 0, now), 0
	}
	if v, denied := r.checkBan(d, 1, now, at); denied {
		return v, 0
	}
	if v, denied := r.checkTable(key, 1, now, at); denied {
		return v, 0
	}
	if stage := r.screen(key, n, now, at); stage != StageExact {
		return admitUnchecked(stage), n
	}
	v, taken := r.fillExact(ctx, key, n, now)
	if !v.Allowed && r.bans != nil {
		v = r.convictExact(key, v, now)
	}
	r.counts.record(at, v.Stage, v.Allowed)
	return v, taken
}

// fillExact charges the exact bucket with as many of n units as fit. It waits for a shared
// one until its timeout after now.
func (r *Rule) fillExact(ctx context.Context, key Key, n uint64, now time.Duration) (Decision, uint64) {
	if r.shared == nil {
		return r.buckets.takeUpTo(key.digest(), n, now)
	}
	c := claim{cost: r.shape.Part(), count: n, deadline: now + r.shared.timeout, policy: r.config.OnFailure}
	return r.shared.take(ctx, key, c)
}

// takeUpTo charges as many of n units to d as fit.
func (b *buckets) takeUpTo(d sketch.Digest, n uint64, now time.Duration) (Decision, uint64) {
	tat, taken := b.fill(d, n, now)
	// As in take: what another request has overtaken is judged again.
	if late := b.clock.Late(now); taken < n && late > now {
		var more uint64
		now = late
		tat, more = b.fill(d, n-taken, now)
		taken += more
	}
	if taken < n && b.countDenied { // unless it fits by now
		var ok bool
		if tat, ok = b.table.TakeCounted(d, b.ticks(now), b.shape.Cost(n-taken)); ok {
			taken = n
		}
	}
	return b.decisionOn(d, StageExact, taken > 0, tat, now, b.shape.Part()), taken
}

// fill charges as many of n units as fit at now, and returns the TAT afterwards.
// It takes what fitted when it looked; the loop ends, as each round means that
// another request was admitted in between.
func (b *buckets) fill(d sketch.Digest, n uint64, now time.Duration) (tat, taken uint64) {
	ticks := b.ticks(now)
	for {
		tat = b.table.Lookup(d)
		if taken = min(n, b.remaining(d, tat, ticks)); taken == 0 {
			return tat, 0
		}
		var ok bool
		if tat, ok = b.table.Take(d, ticks, b.shape.Cost(taken)); ok {
			return tat, taken
		}
	}
}

// remaining is the highest cost that fits the bucket of d, whose TAT is tat.
func (b *buckets) remaining(d sketch.Digest, tat, ticks uint64) uint64 {
	if b.logged {
		free, _, _ := b.table.Log(d, ticks, 1)
		return free
	}
	return b.shape.RemainingCost(tat, ticks)
}
