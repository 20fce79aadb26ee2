package fastlimit

import (
	"context"
	"time"
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
	return r.takeUpTo(ctx, key, n, r.buckets.Clock.Now())
}

func (r *Rule) takeUpTo(ctx context.Context, key Key, n uint64, now time.Duration) (Decision, uint64) {
	if n == 0 {
		return r.peek(key.digest(), 0, now), 0
	}
	return r.takeInSteps(ctx, key, min(n, r.buckets.Shape.MaxCost()), true, now, stackStripe())
}

// Settle corrects the charge of a request that was admitted, once it is known what it has
// cost: n units in place of the charged ones. since is the limiter's time ([Limiter.Now])
// when the request was charged, or earlier; an hour early is safe and gives nothing back.
//
// What it cost more is charged as far as it fits, as by [Rule.TakeUpTo]: the bucket is full
// at most, and nobody waits longer than for a full one to leak. Settle returns how many
// units that were. It waits for a shared exact tier as Take does.
//
// What it cost less is given back, but for what would have leaked since: nobody knows
// whether the bucket had anything else to leak meanwhile. So P2 holds for what requests
// have cost in the end, however long they took (decision 27). A window gives back until it
// ends, and a log nothing. With a shared tier it is given back as by [Rule.Refund].
//
// It is no decision and counts as none. It does not allocate.
func (r *Rule) Settle(ctx context.Context, key Key, charged, n uint64, since time.Duration) (more uint64) {
	r.check(key)
	now := r.buckets.Clock.Now()
	switch {
	case n > charged:
		return r.raise(ctx, key, min(n-charged, r.buckets.Shape.MaxCost()), now)
	case n < charged:
		r.giveBack(key, charged-n, since, r.buckets.Clock.Late(now))
	}
	return 0
}

// raise charges as many of n further units as fit. Unlike a request they are never first
// seen: what the filter forgives is one unit for each client.
func (r *Rule) raise(ctx context.Context, key Key, n uint64, now time.Duration) uint64 {
	d := key.digest()
	if r.filter != nil {
		r.filter.FirstSeen(d, now) // every hit marks it: see screen
	}
	suspect := r.sketch == nil || r.sketch.Add(d, r.buckets.SketchTicks(now), r.buckets.Shape.Cost(n)) >= r.threshold
	r.tellNext(d, n, now)
	if r.talkers != nil {
		r.recordTalker(key, r.talkers.Find(d), n)
	}
	if !suspect {
		return n
	}
	_, taken := r.charge(ctx, key, n, true, now)
	return taken
}

// giveBack returns what is left of n units that were charged at since. Clients without a
// bucket have nothing to get back, and a store is not asked about them (P4).
func (r *Rule) giveBack(key Key, n uint64, since, now time.Duration) {
	ticks := r.buckets.Ticks(now)
	back := r.buckets.Unspent(r.buckets.Shape.Cost(n), since, now)
	if back > 0 && r.buckets.Shape.Live(r.buckets.Lookup(key.digest(), now), ticks) {
		r.refundTicks(key, back, now)
	}
}
