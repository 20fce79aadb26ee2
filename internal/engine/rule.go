package engine

import (
	"context"
	"time"

	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/internal/exact"
	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/internal/queue"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/window"
)

// Rule is one limit of a [Limiter]. It is safe for concurrent use.
type Rule struct {
	// Immutable after New, so that all cores share these lines. What every request reads is adjacent and
	// within the rule: behind HTTP, kernel work between two requests evicts our cache lines.
	common

	sampled   uint32         // digests whose lower half is below it are audited; 0: none
	threshold uint64         // θ·B·T in ticks, rounded down: towards suspicion
	filter    *window.Filter // nil: every request goes to the sketch
	shared    *exact.Shared  // nil: the buckets alone are the exact tier
	sketch    *sketch.Leaky  // &cells; nil: every request is checked exactly
	next      successor      // the rule that takes over from this one, if there is one
	cells     sketch.Leaky
	buckets   exact.Buckets

	audit    audit
	tier     int // from 1 for a tier, whose base is below
	base     *Rule
	tiers    []*Rule // see Tier
	named    *named  // see AtRate; nil without MaxRate
	rateSlot int     // from 1 for a rule that AtRate made, whose base is above
	config   limit.RuleConfig
	queues   *queue.Queues // nil: nobody waits
	live     liveTiers
}

// common is shared by a rule, its tiers and its rates from AtRate: who its clients are, and where their
// requests are counted.
type common struct {
	limiter          *Limiter
	enforced         bool // not in shadow mode
	direct           bool // plain, and without bans: see take
	mask4            uint32
	mask6hi, mask6lo uint64
	hasher           sketch.Hasher
	tag              uint64 // of its keys, in the upper half
	others           uint32 // ^tag: only a key with that tag makes all of it ones
	scale            uint32 // of costs: 1, or 1000 with Thousandths
	counts           *counters
	talkers          *sketch.TopTalkers // nil: top talkers are not tracked
	bans             *ban.Table         // nil: nobody is banned
	cost             uint64
	index            int           // in Limiter.rules
	epoch            time.Duration // of top talkers
	prefixes         keytext.Prefixes
}

// Name is fastlimit.Rule.Name.
func (r *Rule) Name() string { return r.config.Name }

// below is the most whole units that can remain if that cost does not fit.
func (r *Rule) below(cost uint64) int64 { return int64((cost - 1) / uint64(r.scale)) } // the cost fits the burst

// Config is fastlimit.Rule.Config.
func (r *Rule) Config() limit.RuleConfig { return r.config }

// background is a variable so that package fastlimit can inline Allow (TestInlining in bucket).
var background = context.Background()

// Allow is fastlimit.Rule.Allow.
func (r *Rule) Allow(key Key) bool {
	return r.take(background, key, r.cost, unread, 0).Allowed || !r.enforced
}

// Take is fastlimit.Rule.Take.
func (r *Rule) Take(ctx context.Context, key Key, n uint64) limit.Decision {
	return r.take(ctx, key, n, unread, 0)
}

// Peek is fastlimit.Rule.Peek.
func (r *Rule) Peek(key Key, n uint64) limit.Decision {
	r.check(key)
	return r.peek(key.digest(), n, r.buckets.Clock.Late(r.buckets.Clock.Now()))
}

// Refund is fastlimit.Rule.Refund.
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
		r.doubtSuccessors(d)
	}
	if uint32(d.ID) < r.sampled {
		r.refundAudited(d, cost, now)
	} else {
		r.buckets.Table.Refund(d, r.buckets.Ticks(now), cost)
	}
}

// Reset is fastlimit.Rule.Reset.
func (r *Rule) Reset(key Key) {
	r.check(key)
	if r.shared != nil {
		r.shared.Reset(r.client(key))
		return
	}
	d := key.digest()
	if r.next.any.Load() {
		r.doubtSuccessors(d)
	}
	if uint32(d.ID) < r.sampled {
		r.resetAudited(d)
	} else {
		r.buckets.Table.Reset(d)
	}
}

// minEpoch keeps once-per-epoch work rare.
const minEpoch = 10 * time.Second

// time returns the latest time that anybody has read.
func (r *Rule) time() time.Duration { return r.buckets.Clock.Late(r.buckets.Clock.Now()) }

func (r *Rule) setPrefixes() {
	r.mask4 = ^uint32(0) << (32 - r.prefixes.Bits4)
	r.mask6hi = ^uint64(0)
	if r.prefixes.Bits6 <= 64 {
		r.mask6hi <<= 64 - r.prefixes.Bits6
	} else {
		r.mask6lo = ^uint64(0) << (128 - r.prefixes.Bits6)
	}
}

// TakeUpTo is fastlimit.Rule.TakeUpTo.
func (r *Rule) TakeUpTo(ctx context.Context, key Key, n uint64) (d limit.Decision, taken uint64) {
	r.check(key)
	return r.takeUpTo(ctx, key, n, r.buckets.Clock.Now())
}

func (r *Rule) takeUpTo(ctx context.Context, key Key, n uint64, now time.Duration) (limit.Decision, uint64) {
	if n == 0 {
		return r.peek(key.digest(), 0, now), 0
	}
	return r.takeInSteps(ctx, key, min(n, r.buckets.Shape.MaxCost()), true, now, stackStripe())
}

// Settle is fastlimit.Rule.Settle.
func (r *Rule) Settle(ctx context.Context, key Key, charged, n uint64, since time.Duration) (more uint64) {
	r.check(key)
	now := r.buckets.Clock.Now()
	switch {
	case n > charged:
		return r.chargeMore(ctx, key, min(n-charged, r.buckets.Shape.MaxCost()), now)
	case n < charged:
		r.refundUnspent(key, charged-n, since, r.buckets.Clock.Late(now))
	}
	return 0
}

// chargeMore charges as many of n more units as fit. They are never first seen, because the filter forgives
// each client one unit.
func (r *Rule) chargeMore(ctx context.Context, key Key, n uint64, now time.Duration) uint64 {
	d := key.digest()
	if r.filter != nil {
		r.filter.FirstSeen(d, now) // every hit marks it: see screen
	}
	var suspect bool
	if cost := r.buckets.Shape.Cost(n); uint32(d.ID) < r.sampled {
		suspect = r.addAudited(d, cost, now)
	} else {
		suspect = r.addToCells(d, cost, now)
	}
	r.chargeSuccessors(d, n, now)
	if r.talkers != nil && !r.talkers.Add(d, n) {
		r.insertTalker(key, n)
	}
	if !suspect {
		return n
	}
	_, taken := r.charge(ctx, key, n, true, now)
	return taken
}

func (r *Rule) addToCells(d sketch.Digest, cost uint64, now time.Duration) (suspect bool) {
	return r.sketch == nil || r.sketch.Add(d, r.buckets.SketchTicks(now), cost) >= r.threshold
}

// refundUnspent returns what is left of n units that were charged at since. Clients without a bucket get
// nothing back, and a store is not asked about them (P4).
func (r *Rule) refundUnspent(key Key, n uint64, since, now time.Duration) {
	ticks := r.buckets.Ticks(now)
	back := r.buckets.Unspent(r.buckets.Shape.Cost(n), since, now)
	if back > 0 && r.buckets.Shape.Live(r.buckets.Lookup(key.digest(), now), ticks) {
		r.refundTicks(key, back, now)
	}
}
