package fastlimit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
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

	threshold uint64 // θ·B·T in ticks, rounded down: towards suspicion
	counts    *counters
	filter    *window.Filter     // nil: every request goes on to the sketch
	talkers   *sketch.TopTalkers // nil: top talkers are not tracked
	shared    *exact.Shared      // nil: the buckets are the exact tier by themselves
	sketch    *sketch.Leaky      // &cells; nil: every request is checked exactly
	next      successor          // who goes on with this rule, if anybody does
	cells     sketch.Leaky
	buckets   exact.Buckets

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

// Index is the rule's place in [Config.Rules].
func (r *Rule) Index() int { return r.index }

// Burst is the burst of [Rule.Config], the most units that a request may ever take.
func (r *Rule) Burst() uint64 { return r.config.Burst }

// CostScale is the cost of one unit, in Take and all else that is given a cost: 1, or 1000
// of a rule with [RuleConfig].Thousandths.
func (r *Rule) CostScale() uint64 { return uint64(r.scale) }

// MaxCost is the highest cost that may ever be admitted: the burst, at that scale.
func (r *Rule) MaxCost() uint64 { return r.buckets.Shape.MaxCost() }

// below is the most whole units that remain where that cost does not fit.
func (r *Rule) below(cost uint64) int64 { return int64((cost - 1) / r.CostScale()) } // the cost fits the burst

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
	r.buckets.Table.Refund(key.digest(), r.buckets.Ticks(now), cost)
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
	r.buckets.Table.Reset(key.digest())
}

// Identity is a hash of all that two nodes must agree on to exchange counts of
// this rule: what a client is, how it is named and digested (the rule's name
// and [Config.Secret]), and its limit. θ, cost and mode may differ. It is for
// package sync/gossip.
func (r *Rule) Identity() uint64 {
	b := r.config.AppendIdentity(nil)
	probe := r.hasher.Bytes(nil) // tells secrets apart and gives none away
	b = binary.BigEndian.AppendUint64(b, probe.Pos)
	b = binary.BigEndian.AppendUint64(b, probe.ID)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

// minEpoch keeps slow what is done once an epoch.
const minEpoch = 10 * time.Second

// Epoch is E, after which the weights of [Rule.TopTalkers] are to begin anew: at
// least the time in which the fullest bucket drains, and 10 s. It is for those
// who end epochs; see there.
func (r *Rule) Epoch() time.Duration { return r.epoch }

// ChargePeer charges units, or [RuleConfig].Thousandths of one, that another node counted to the sketch, as of now:
// to the client at pos, a [sketch.Slot]'s. That can make a suspect and never
// denies. Without a sketch there are no suspects and nothing happens. It is for
// package sync/gossip.
func (r *Rule) ChargePeer(pos, units uint64) {
	r.checkMade()
	if r.sketch == nil {
		return
	}
	hi, cost := bits.Mul64(units, r.buckets.Shape.Part())
	if hi != 0 {
		cost = 1 << 61 // above all levels: sums of it and a clock stay within 64 bits
	}
	r.sketch.Charge(sketch.Digest{Pos: pos}, r.buckets.SketchTicks(r.time()), cost)
}

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

// Assured tells how many units of key are sure to be admitted now, whatever filter and
// sketch make of the client: Remaining of the decision is exact or a lower bound, and
// TimeToEmpty is that of the exact bucket. It takes nothing and does not allocate.
//
// It holds by P1: only the exact bucket denies, and nobody else's requests are charged
// to it. So what fits the bucket as it is read here will fit until this client's own
// requests have used it up. A client that was never suspected has an empty bucket,
// which fits the whole burst however much filter and sketch have admitted before: that
// is the excess of P2.
//
// To a client that is banned none are: the decision is the denial.
//
// With a shared exact tier other nodes charge the bucket too, and this one knows only
// what the store has answered it: then Remaining is [RemainingUnknown].
func (r *Rule) Assured(key Key) Decision {
	r.check(key)
	if v, banned := r.banned(key.digest(), r.buckets.Clock.Late(r.buckets.Clock.Now())); banned {
		return v
	}
	if r.shared != nil {
		return admitUnchecked(StageExact)
	}
	now := r.buckets.Clock.Late(r.buckets.Clock.Now())
	return r.buckets.Decision(key.digest(), StageExact, true, r.buckets.Table.Lookup(key.digest()), now, 0)
}
