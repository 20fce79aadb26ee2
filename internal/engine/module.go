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

// Index is the rule's place in [Config.Rules].
func (r *Rule) Index() int { return r.index }

// Limiter returns the limiter that the rule is one of.
func (r *Rule) Limiter() *Limiter { return r.limiter }

// CostScale is the cost of one unit, in Take and all else that is given a cost: 1, or 1000
// of a rule with [RuleConfig].Thousandths.
func (r *Rule) CostScale() uint64 { return uint64(r.scale) }

// MaxCost is the highest cost that may ever be admitted: the burst, at that scale.
func (r *Rule) MaxCost() uint64 { return r.buckets.Shape.MaxCost() }

// TierIndex is i of [Rule.Tier], -1 of a rule that is none.
func (r *Rule) TierIndex() int { return r.tier - 1 }

// NamedIndex is a number below [limit.MaxNamedRates] of a rule from [Rule.AtRate], and -1 of
// any other. Of all that are in use at a time it is unique within the base.
func (r *Rule) NamedIndex() int { return r.rateSlot - 1 }

// Base returns the rule that r is a tier of, or r.
func (r *Rule) Base() *Rule { return r.owner() }

// Unlimited counts, at stage list, that a request was admitted without being charged,
// because its client has no limit by this rule, and returns that decision. It takes
// nothing from anybody.
func (r *Rule) Unlimited() limit.Decision {
	r.checkMade()
	r.counts.record(stackStripe(), limit.StageList, true)
	return admitUnchecked(limit.StageList)
}

// Assured returns how many units of key are sure to be admitted now, whatever filter and
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

// Banned returns for how long key is still banned, or, by a shadow rule, would be.
func (r *Rule) Banned(key Key) (left time.Duration, ok bool) {
	r.check(key)
	d, ok := r.banned(key.digest(), r.time())
	return d.RetryAfter, ok
}

// BanFor bans a client because another node has reported a ban by a rule with the same Identity, of
// which b has Digest, Name, Left and Times. It lasts for Left, or for the rule's Ban.Max if that is
// shorter; a ban that lasts longer stays. BanFor reports whether the client is banned now, and sets
// Left to how long. It is not if the rule does not ban or has no room
// ([limit.RuleStats].BansRefused). BanFor does not call OnBan, and does not make the next ban longer.
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

// UnbanFor ends a ban that BanFor began, because another node has ended it. A ban that this rule began
// stays. It does not call OnUnban. It returns the ban that ran, and whether one did.
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

// BadCost counts a request whose sender named a cost that cannot be charged: for
// callers that take costs from requests. It decides nothing.
func (r *Rule) BadCost() { r.counts.badCosts.Add(1) }

// BadRate likewise counts a request with a rate that does not parse.
func (r *Rule) BadRate() { r.counts.badRates.Add(1) }

// Continues reports whether r is a successor of old and continues its counts, for callers that keep
// counts too.
func (r *Rule) Continues(old *Rule) bool { return r.counts == old.counts }

// Identity is a hash of all that two nodes must agree on to exchange counts of
// this rule: what a client is, how it is named and digested (the rule's name
// and [Config.Secret]), and its limit. θ, cost and mode may differ.
func (r *Rule) Identity() uint64 {
	b := r.config.AppendIdentity(nil)
	probe := r.hasher.Bytes(nil) // tells secrets apart and gives none away
	b = binary.BigEndian.AppendUint64(b, probe.Pos)
	b = binary.BigEndian.AppendUint64(b, probe.ID)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

// ChargePeer charges units, or [RuleConfig].Thousandths of one, that another node counted to
// the sketch, as of now: to the client at pos, a [sketch.Slot]'s. That can make a suspect and
// never denies. Without a sketch there are no suspects and nothing happens.
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

// LiveTierBytes is how much memory NewTier takes for a tier: the same on every
// call. The error is that of NewTier, but for their number.
func (r *Rule) LiveTierBytes(t limit.Tier) (int64, error) {
	tp, err := r.planLiveTier(t)
	if err != nil {
		return 0, err
	}
	return tp.Bytes, nil
}

// NewTier makes a tier while the rule is in use, beside those of the configuration, with
// buckets of its own, all of them empty. Nothing that exists changes: neither the state of
// others nor the plan. Its memory is beside [Config.Memory]: see LiveTierBytes; call
// DropTier when no request will be charged to it any more. Its TierIndex is not that
// of another tier in use. A rule has at most [limit.MaxTiers], those of its configuration
// included. [Limiter.With] does not take it over. The error joins everything that is
// wrong with the limit, each a [FieldError] named Tiers[0].Rate or the like.
func (r *Rule) NewTier(t limit.Tier) (*Rule, error) {
	r.checkMade()
	return r.newLiveTier(t, nil)
}

// ContinueTier makes a tier as NewTier does, that takes over the buckets of a live tier of the
// rule before ([Limiter.With]). Where this rule has not taken that one's state over its buckets
// are empty. Unlike NewTier it is for one goroutine, before the rule is used.
func (r *Rule) ContinueTier(old *Rule, t limit.Tier) (*Rule, error) {
	r.checkMade()
	if old.base == nil || !r.Continues(old.base) {
		return r.NewTier(t)
	}
	next, err := r.newLiveTier(t, old)
	r.limiter.transferAll()
	return next, err
}

// DropTier lets go of a tier of NewTier: requests that still have it finish with
// it, and its index may be another's.
func (r *Rule) DropTier(t *Rule) { r.live.drop(t) }

// Counters returns the counters of r. Evictions, bans and requests that wait are those of now
// and stay so.
func (r *Rule) Counters() Counters {
	s := r.Stats()
	rest := limit.RuleStats{Evictions: s.Evictions, Forgiven: s.Forgiven, Bans: s.Bans, BansRefused: s.BansRefused, DenialsUncounted: s.DenialsUncounted, Waits: s.Waits}
	return Counters{r.counts, rest}
}

// Shared reports whether the rule's exact buckets are a store's, for which decisions may wait.
func (r *Rule) Shared() bool { return r.shared != nil }

// TakeAllAt is TakeAll for a caller that has read the clock for this request
// already, right before the call: at is what [time.Now] returned, with its
// monotonic part. The request counts as in flight from the reading on. A
// limiter with a [Config.Clock] has its time from there, so at must be zero.
func (l *Limiter) TakeAllAt(ctx context.Context, charges []Charge, at time.Time) (d limit.Decision, by int) {
	l.check(charges)
	return l.takeAll(ctx, charges, l.read(at))
}

// DenyAllAt is TakeAllAt for a caller who must not be kept waiting by a store: it denies what
// that would deny by a ban or by a table, and reports false in all other cases. Then nothing has
// changed. It is not for rules with queues, whose requests wait where tables deny.
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

// WaitAllFor is WaitAll for a caller that may have read the clock, as that of TakeAllAt. It reports to w,
// if that is not nil, when the request begins to wait; then w's context counts.
func (l *Limiter) WaitAllFor(ctx context.Context, w waiter, charges []Charge, at time.Time) (d limit.Decision, by int) {
	l.check(charges)
	return l.waitAll(ctx, w, charges, l.read(at))
}

// waiter is policy.Waiter.
type waiter interface {
	BeginWait() (ctx context.Context)
	EndWait()
}
