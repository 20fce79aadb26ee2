package fastlimit

import (
	"context"
	"time"
)

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
	now := r.clock.Now()
	switch {
	case n > charged:
		return r.raise(ctx, key, min(n-charged, r.shape.MaxCost()), now)
	case n < charged:
		r.giveBack(key, charged-n, since, r.clock.Late(now))
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
	suspect := r.sketch == nil || r.sketch.Add(d, r.sketchTicks(now), r.shape.Cost(n)) >= r.threshold
	r.tellNext(d, n, now)
	if r.talkers != nil {
		r.recordTalker(key, r.talkers.Find(d), n)
	}
	if !suspect {
		return n
	}
	_, taken := r.fillExact(ctx, key, n, now)
	return taken
}

// giveBack returns what is left of n units that were charged at since. Clients without a
// bucket have nothing to get back, and a store is not asked about them (P4).
func (r *Rule) giveBack(key Key, n uint64, since, now time.Duration) {
	ticks := r.ticks(now)
	back := r.unspent(r.shape.Cost(n), since, now)
	if back > 0 && r.shape.Live(r.lookup(key.digest(), now), ticks) {
		r.refundTicks(key, back, now)
	}
}

// unspent is how much of a cost that was charged at since a bucket holds at now, whatever
// else it was charged with.
func (r *Rule) unspent(cost uint64, since, now time.Duration) uint64 {
	then, ticks := r.ticks(min(since, now)), r.ticks(now)
	switch {
	case r.plain:
		return cost - min(cost, ticks-then)
	case r.windowed && r.shape.Window(then) == r.shape.Window(ticks):
		return cost
	}
	return 0 // a log would drop its latest units, which count longer than those of then
}
