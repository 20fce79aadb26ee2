package fastlimit

import (
	"context"
	"time"

	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/internal/exact"
	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/window"
)

// Rule is one limit of a [Limiter]. It is safe for concurrent use.
type Rule struct {
	// Immutable after New, so that all cores share these lines. What every
	// request reads stands together and within the rule: behind HTTP the kernel
	// work between two requests evicts our cache lines.
	limiter          *Limiter
	enforced         bool // not in shadow mode
	direct           bool // plain, and without bans: see take
	mask4            uint32
	mask6hi, mask6lo uint64
	hasher           sketch.Hasher
	tag              uint64 // of its keys, in the upper half
	others           uint32 // ^tag: what only a key with that tag makes all ones
	scale            uint32 // of costs: 1, or 1000 with Thousandths
	sampled          uint32 // digests whose lower half is below it are audited; 0: none

	threshold uint64 // θ·B·T in ticks, rounded down: towards suspicion
	counts    *counters
	filter    *window.Filter     // nil: every request goes on to the sketch
	talkers   *sketch.TopTalkers // nil: top talkers are not tracked
	shared    *exact.Shared      // nil: the buckets are the exact tier by themselves
	sketch    *sketch.Leaky      // &cells; nil: every request is checked exactly
	next      successor          // who goes on with this rule, if anybody does
	cells     sketch.Leaky
	buckets   exact.Buckets

	audit  audit
	bans   *ban.Table // nil: nobody is banned. A tier's is its rule's.
	index  int        // in Limiter.rules
	tier   int        // 1 and up of a tier, whose base is below
	base   *Rule
	tiers  []*Rule // see Tier
	named  *named  // see AtRate; nil without MaxRate
	slot   int     // 1 and up of a rule that AtRate has made, whose base is above
	cost   uint64
	config RuleConfig
	epoch  time.Duration // see Epoch
	lines  *ruleLines    // nil: nobody waits
	live   liveTiers
	namer
}

// Name is the rule's name.
func (r *Rule) Name() string { return r.config.Name }

// below is the most whole units that remain where that cost does not fit.
func (r *Rule) below(cost uint64) int64 { return int64((cost - 1) / uint64(r.scale)) } // the cost fits the burst

// Config is the rule's configuration with defaults filled in.
func (r *Rule) Config() RuleConfig { return r.config }

// Allow takes the rule's cost for key and reports whether the request is
// admitted. A shadow rule admits everything.
func (r *Rule) Allow(key Key) bool {
	return r.take(context.Background(), key, r.cost, unread, 0).Allowed || !r.enforced
}

// Take takes n units for key. It does not allocate, nor wait, unless a suspect
// has to be looked up in a shared exact tier ([Config.Store]); then it waits for
// no longer than [Config.StoreTimeout]. A request whose ctx ends while it waits
// is denied, whatever the failure policy, and what the store grants it is given
// back: the decision has stage exact and its Remaining is [RemainingUnknown]. A
// denied request takes nothing. The decision is what the rule would do if
// enforced: minding its mode is up to the caller. n = 0 asks like [Rule.Peek].
func (r *Rule) Take(ctx context.Context, key Key, n uint64) Decision {
	return r.take(ctx, key, n, unread, 0)
}

// Peek tells whether n units would be admitted now as far as this node knows,
// and takes nothing.
func (r *Rule) Peek(key Key, n uint64) Decision {
	r.check(key)
	return r.peek(key.digest(), n, r.buckets.Clock.Late(r.buckets.Clock.Now()))
}

// Refund gives back n units that were taken for key, as far as its exact
// bucket still holds them. Give back only what was taken, and soon, of a window
// before it ends: P2 counts a request that was refunded as one that was never made.
//
// With a shared exact tier the units are back in this node's table at once, and
// in the store after the operation in flight. They may be lost if the store is
// away or takes longer than [Config.StoreTimeout]: then the client stays
// charged. Other nodes go on denying what they knew of until it has leaked.
func (r *Rule) Refund(key Key, n uint64) {
	r.check(key)
	r.refund(key, n, r.buckets.Clock.Late(r.buckets.Clock.Now()))
}

func (r *Rule) refund(key Key, n uint64, now time.Duration) {
	r.refundTicks(key, r.buckets.Shape.Cost(n), now)
}

func (r *Rule) refundTicks(key Key, cost uint64, now time.Duration) {
	if r.shared != nil {
		r.shared.Refund(r.client(key), cost)
		return
	}
	d := key.digest()
	if r.next.any.Load() {
		r.doubtNext(d)
	}
	if uint32(d.ID) < r.sampled {
		r.refundAudited(d, cost, now)
	} else {
		r.buckets.Table.Refund(d, r.buckets.Ticks(now), cost)
	}
}

// Reset empties the exact bucket of key: whoever was denied is admitted
// again. Its sketch cells are shared with others and keep their levels.
//
// With a shared exact tier the bucket is empty in this node's table at once,
// and in the store after the operation in flight; neither answers that are
// under way nor what other nodes remember fill it again. A reset is lost if the
// store is away. Other nodes go on denying what they knew of until it has
// leaked, for at most the time in which the bucket drains: reset it there too.
func (r *Rule) Reset(key Key) {
	r.check(key)
	if r.shared != nil {
		r.shared.Reset(r.client(key))
		return
	}
	d := key.digest()
	if r.next.any.Load() {
		r.doubtNext(d)
	}
	if uint32(d.ID) < r.sampled {
		r.resetAudited(d)
	} else {
		r.buckets.Table.Reset(d)
	}
}

// minEpoch keeps slow what is done once an epoch.
const minEpoch = 10 * time.Second

// time is the latest time that anybody has read.
func (r *Rule) time() time.Duration { return r.buckets.Clock.Late(r.buckets.Clock.Now()) }

func (r *Rule) setPrefixes() {
	r.mask4 = ^uint32(0) << (32 - r.bits4)
	r.mask6hi = ^uint64(0)
	if r.bits6 <= 64 {
		r.mask6hi <<= 64 - r.bits6
	} else {
		r.mask6lo = ^uint64(0) << (128 - r.bits6)
	}
}

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
	var suspect bool
	if cost := r.buckets.Shape.Cost(n); uint32(d.ID) < r.sampled {
		suspect = r.raiseAudited(d, cost, now)
	} else {
		suspect = r.raiseCells(d, cost, now)
	}
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

func (r *Rule) raiseCells(d sketch.Digest, cost uint64, now time.Duration) (suspect bool) {
	return r.sketch == nil || r.sketch.Add(d, r.buckets.SketchTicks(now), cost) >= r.threshold
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
