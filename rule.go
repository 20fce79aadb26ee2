package fastlimit

import (
	"context"
	"time"

	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/sketch"
)

// Rule is one limit of a [Limiter]. It is safe for concurrent use.
type Rule engine.Rule

// engine returns the same rule as package engine knows it.
func (r *Rule) engine() *engine.Rule { return (*engine.Rule)(r) }

// Name is the rule's name.
func (r *Rule) Name() string { return r.engine().Name() }

// Config is the rule's configuration with defaults filled in.
func (r *Rule) Config() RuleConfig { return r.engine().Config() }

// Allow takes the rule's cost for key and reports whether the request is
// admitted. A shadow rule admits everything.
func (r *Rule) Allow(key Key) bool { return r.engine().Allow(engine.Key(key)) }

// Take takes n units for key. It does not allocate, nor wait, unless a suspect
// has to be looked up in a shared exact tier ([Config.Store]); then it waits for
// no longer than [Config.StoreTimeout]. A request whose ctx ends while it waits
// is denied, whatever the failure policy, and what the store grants it is given
// back: the decision has stage exact and its Remaining is [RemainingUnknown]. A
// denied request takes nothing. The decision is what the rule would do if
// enforced: minding its mode is up to the caller. n = 0 asks like [Rule.Peek].
func (r *Rule) Take(ctx context.Context, key Key, n uint64) Decision {
	return r.engine().Take(ctx, engine.Key(key), n)
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
	return r.engine().TakeUpTo(ctx, engine.Key(key), n)
}

// Wait is [Rule.Take] for a request that may wait instead of being denied, for at most
// [RuleConfig].MaxWait. It blocks its caller until the n units fit the client's bucket
// and then takes them. Those who wait for the same client are served in the order in
// which they came, and nobody overtakes them but callers of Take and TakeUpTo.
//
// It denies at once where the units will not fit in time, exceed the burst or, by
// [Config.Wait], find no place; and where the rule is in shadow mode, has no MaxWait, or
// its limiter has a [Config.Clock], in all of which cases Wait is Take. RetryAfter is
// then the time until the units would fit after those of everyone who waits. A caller
// whose ctx ends is denied as by Take, has taken nothing, and the next moves up; so are all
// by [Limiter.StopWaiting].
//
// It is denied, without an error and with nothing taken, also if others took the units:
// another node, or a caller of Take. It comes back at most 10 ms and one StoreTimeout
// after MaxWait, if its goroutine gets to run. If [Limiter.With] changes the limit meanwhile,
// it asks by the new one from then on, in its order, for as long as either lets it wait.
//
// A request that waits makes no decision until it ends, and counts once in [Rule.Stats].
// If nobody waits, Wait does not allocate and costs little more than Take.
func (r *Rule) Wait(ctx context.Context, key Key, n uint64) Decision {
	return r.engine().Wait(ctx, engine.Key(key), n)
}

// Peek tells whether n units would be admitted now as far as this node knows,
// and takes nothing.
func (r *Rule) Peek(key Key, n uint64) Decision { return r.engine().Peek(engine.Key(key), n) }

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
	return r.engine().Settle(ctx, engine.Key(key), charged, n, since)
}

// Refund gives back n units that were taken for key, as far as its exact
// bucket still holds them. Give back only what was taken, and soon, of a window
// before it ends: P2 counts a request that was refunded as one that was never made.
//
// With a shared exact tier the units are back in this node's table at once, and
// in the store after the operation in flight. They may be lost if the store is
// away or takes longer than [Config.StoreTimeout]: then the client stays
// charged. Other nodes go on denying what they knew of until it has leaked.
func (r *Rule) Refund(key Key, n uint64) { r.engine().Refund(engine.Key(key), n) }

// Reset empties the exact bucket of key: whoever was denied is admitted
// again. Its sketch cells are shared with others and keep their levels.
//
// With a shared exact tier the bucket is empty in this node's table at once,
// and in the store after the operation in flight; neither answers that are
// under way nor what other nodes remember fill it again. A reset is lost if the
// store is away. Other nodes go on denying what they knew of until it has
// leaked, for at most the time in which the bucket drains: reset it there too.
func (r *Rule) Reset(key Key) { r.engine().Reset(engine.Key(key)) }

// Tier returns the rule of [RuleConfig].Tiers[i]: a rule by itself with the name,
// index, mode and counters of r, and with exact buckets of its own. There is neither
// filter nor sketch before them, so it admits no more than its own burst and rate. It
// takes the keys of r. A request of a client that has this limit is charged to the
// tier and not to r.
func (r *Rule) Tier(i int) *Rule { return (*Rule)(r.engine().Tier(i)) }

// AtRate returns the rule at another rate, which somebody has named for a client, such as
// a proxy that knows the client's plan: to be charged for a request of that client
// instead of r. It is a rule by itself with the name, index, mode, cost, counters and keys of r.
//
// The rate is at most [RuleConfig].MaxRate, and at least 1/d and Cost in 12 days. The burst is N of the rate, at most that
// of MaxRate and at least Cost; it leaks in 12 days at most. The rule's own
// rate is r itself.
//
// Whatever rates are named for a client, there is one bucket: each unit keeps it busy
// for 1/r of the rate that it was charged by. So a client whose rate alternates is never
// admitted more than by the best of them, and one whose rate is raised has to wait until
// what it has taken by the lower rate has leaked at that.
//
// It panics on a rule without MaxRate. It allocates only for a rate that was not named
// lately, and takes no lock otherwise.
func (r *Rule) AtRate(rate Rate) *Rule { return (*Rule)(r.engine().AtRate(rate)) }

// TopTalkers has the table of the clients that sent most to this rule, nil without
// [Config.TopTalkers]: package toptalkers lists them. Every hit that gets past the first-seen
// filter is counted in it, admitted or not; what the table of buckets denies is sampled at
// random under load. One owner ends its epochs: a toptalkers.Ranking, package server or
// package gossip. The limiter itself never does.
func (r *Rule) TopTalkers() sketch.RuleTalkers { return r.engine().TopTalkers() }

// Stats returns a snapshot. Counters of concurrent decisions may be a few
// apart.
func (r *Rule) Stats() RuleStats { return r.engine().Stats() }
