package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// Index is the rule's index in [Config.Rules].
func (r *Rule) Index() int { return r.index }

// Limiter returns the limiter that the rule belongs to.
func (r *Rule) Limiter() *Limiter { return r.limiter }

// CostScale is the cost of one unit in Take and wherever a cost is given: 1, or 1000 with
// [RuleConfig].Thousandths.
func (r *Rule) CostScale() uint64 { return uint64(r.scale) }

// MaxCost is the highest cost that can ever be admitted: the burst, at that scale.
func (r *Rule) MaxCost() uint64 { return r.buckets.Shape.MaxCost() }

// TierIndex is i of [Rule.Tier], or -1 for a rule that is not a tier.
func (r *Rule) TierIndex() int { return r.tier - 1 }

// NamedIndex is a number below [limit.MaxNamedRates] for a rule from [Rule.AtRate], and -1 for any other. It
// is unique within the base among those in use.
func (r *Rule) NamedIndex() int { return r.rateSlot - 1 }

// Base returns the rule that r is a tier of, or r.
func (r *Rule) Base() *Rule { return r.owner() }

// Unlimited counts, at stage list, that a request was admitted without being charged because this rule does
// not limit its client, and returns that decision.
func (r *Rule) Unlimited() limit.Decision {
	r.checkMade()
	r.counts.record(stackStripe(), limit.StageList, true)
	return admitUnchecked(limit.StageList)
}

// Assured returns how many units of key are sure to be admitted now, whatever filter and sketch estimate: the
// decision's Remaining is exact or a lower bound, and TimeToEmpty is that of the exact bucket. It charges
// nothing and does not allocate.
//
// It holds by P1: only the exact bucket denies, and nobody else's requests are charged to it. So what fits
// the bucket now will fit until this client's own requests have used it up. A client that was never suspected
// has an empty bucket, which fits the whole burst however much filter and sketch have admitted before: that
// is the excess of P2.
//
// For a banned client the decision is the denial.
//
// With a shared exact tier other nodes charge the bucket too, and this one knows only the store's answers:
// then Remaining is [RemainingUnknown].
func (r *Rule) Assured(key Key) limit.Decision {
	r.check(key)
	now := r.time()
	if v, banned := r.banned(key.digest(), now); banned {
		return v
	}
	if r.shared != nil {
		return admitUnchecked(limit.StageExact)
	}
	return r.buckets.Decision(key.digest(), limit.StageExact, true, r.buckets.Table.Lookup(key.digest()), now, 0)
}

// Banned returns how much longer key is banned, or would be by a shadow rule.
func (r *Rule) Banned(key Key) (left time.Duration, ok bool) {
	r.check(key)
	d, ok := r.banned(key.digest(), r.time())
	return d.RetryAfter, ok
}

// BanFor bans a client because another node reported a ban by a rule with the same Identity, with b's Digest,
// Name, Left and Times. It lasts for Left, or for the rule's Ban.Max if that is shorter; a longer ban stays.
// BanFor reports whether the client is banned now, and sets Left to how long. It is not if the rule does not
// ban or has no room ([limit.RuleStats].BansRefused). BanFor does not call OnBan or make the next ban longer.
func (r *Rule) BanFor(b *Ban) bool {
	r.checkMade()
	if r.bans == nil || b.Left <= 0 {
		return false
	}
	runs := r.bans.Impose(&r.config.Ban, b.Digest, r.time(), b.Left, b.Times, []byte(b.Name))
	if runs > 0 {
		b.Left = runs
	}
	return runs > 0
}

// UnbanFor ends a ban that BanFor began, because another node ended it. A ban that this rule began stays. It
// does not call OnUnban. It returns the ban and whether there was one.
func (r *Rule) UnbanFor(d sketch.Digest) (was Ban, banned bool) {
	r.checkMade()
	if r.bans == nil {
		return Ban{}, false
	}
	b, banned := r.bans.LiftImposed(d, r.time())
	if !banned {
		return Ban{}, false
	}
	return r.banOf(&b), true
}

// BadCost counts a request with a cost that cannot be charged, for callers that take costs from requests.
func (r *Rule) BadCost() { r.counts.badCosts.Add(1) }

// BadRate likewise counts a request with a rate that does not parse.
func (r *Rule) BadRate() { r.counts.badRates.Add(1) }

// Continues reports whether r is a successor of old and continues its counts, for callers that keep counts
// too.
func (r *Rule) Continues(old *Rule) bool { return r.counts == old.counts }

// Identity is a hash of all that two nodes must agree on to exchange counts of
// this rule: what a client is, how it is named and digested (the rule's name
// and [Config.Secret]), and its limit. θ, cost and mode may differ.
func (r *Rule) Identity() uint64 {
	b := r.config.AppendIdentity(nil)
	probe := r.hasher.Bytes(nil) // differs between secrets without revealing any
	b = binary.BigEndian.AppendUint64(b, probe.Pos)
	b = binary.BigEndian.AppendUint64(b, probe.ID)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

// ChargePeer charges units, or [RuleConfig].Thousandths of one, that another node counted, to the sketch as
// of now: to the client at pos, from a [sketch.Slot]. That can make a suspect and never denies. It does
// nothing without a sketch.
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

// LiveTierBytes returns how much memory NewTier takes for a tier, which is always the same. Its error is
// NewTier's, except for the number of tiers.
func (r *Rule) LiveTierBytes(t limit.Tier) (int64, error) {
	tp, err := r.planLiveTier(t)
	if err != nil {
		return 0, err
	}
	return tp.Bytes, nil
}

// NewTier adds a tier to those of the configuration while the rule is in use, with empty buckets of its own.
// It changes neither the state of others nor the plan. Its memory comes on top of [Config.Memory]: see
// LiveTierBytes; call DropTier when no request will be charged to it any more. No other tier in use has its
// TierIndex. A rule has at most [limit.MaxTiers], those of its configuration included. [Limiter.With] does
// not take it over. The error joins everything that is wrong with the limit, each a [FieldError] named
// Tiers[0].Rate or the like.
func (r *Rule) NewTier(t limit.Tier) (*Rule, error) {
	r.checkMade()
	return r.newLiveTier(t, nil)
}

// ContinueTier is NewTier for a tier that takes over the buckets of a live tier of the predecessor
// ([Limiter.With]). Its buckets are empty if this rule did not take over that one's state. Unlike NewTier it
// is for one goroutine, before the rule is used.
func (r *Rule) ContinueTier(old *Rule, t limit.Tier) (*Rule, error) {
	r.checkMade()
	if old.base == nil || !r.Continues(old.base) {
		return r.NewTier(t)
	}
	next, err := r.newLiveTier(t, old)
	r.limiter.transferAll()
	return next, err
}

// DropTier releases a tier of NewTier. Requests that still have it finish with it, and its index may be
// reused.
func (r *Rule) DropTier(t *Rule) { r.live.drop(t) }

// Counters returns the counters of r. Evictions, bans and waiting requests are a snapshot.
func (r *Rule) Counters() Counters {
	s := r.Stats()
	rest := limit.RuleStats{Evictions: s.Evictions, Forgiven: s.Forgiven, Bans: s.Bans, BansRefused: s.BansRefused, DenialsUncounted: s.DenialsUncounted, Waits: s.Waits}
	return Counters{r.counts, rest}
}

// Shared reports whether the rule's exact buckets are in a store, for which decisions may wait.
func (r *Rule) Shared() bool { return r.shared != nil }

// TakeAllAt is TakeAll for a caller that read the clock for this request right before the call: at is what
// [time.Now] returned, with its monotonic part. The request counts as in flight since that reading. With a
// [Config.Clock] at must be zero.
func (l *Limiter) TakeAllAt(ctx context.Context, charges []Charge, at time.Time) (d limit.Decision, by int) {
	l.check(charges)
	return l.takeAll(ctx, charges, l.read(at))
}

// DenyAllAt is TakeAllAt for a caller that must not wait for a store: it denies what TakeAllAt would deny by
// a ban or by a table, and otherwise changes nothing and reports false. It is not for rules with queues,
// whose requests wait where tables deny.
func (l *Limiter) DenyAllAt(charges []Charge, at time.Time) (d limit.Decision, by int, denied bool) {
	l.check(charges)
	now := l.read(at)
	if !someDenies(charges, now) {
		return limit.Decision{}, -1, false
	}
	var over chargeSet
	stripe := stripeFor(charges)
	if l.bans {
		if d, by = checkAll(theBan, charges, now, stripe, &over); by >= 0 {
			return d, by, true
		}
	}
	d, by = checkAll(theTable, charges, now, stripe, &over)
	return d, by, by >= 0
}

// WaitAllFor is WaitAll for a caller that may have read the clock, like that of TakeAllAt. If w is not nil,
// it calls w when the request begins to wait, and uses w's context from then on.
func (l *Limiter) WaitAllFor(ctx context.Context, w waiter, charges []Charge, at time.Time) (d limit.Decision, by int) {
	l.check(charges)
	return l.waitAll(ctx, w, charges, l.read(at))
}

// waiter is policy.Waiter.
type waiter interface {
	BeginWait() (ctx context.Context)
	EndWait()
}
