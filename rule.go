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

// Name returns the rule's name.
func (r *Rule) Name() string { return r.engine().Name() }

// Config returns the rule's configuration with defaults filled in.
func (r *Rule) Config() RuleConfig { return r.engine().Config() }

// Allow takes the rule's cost for key and reports whether the request is
// admitted. A shadow rule admits everything.
func (r *Rule) Allow(key Key) bool { return (*engine.Rule)(r).Allow(engine.Key(key)) }

// Take takes n units for key. It does not allocate, and it does not wait unless a suspect
// has to be looked up in a shared exact tier ([Config.Store]), and then for no longer than
// [Config.StoreTimeout]. A request whose ctx ends while it waits is denied, whatever the
// failure policy, and what the store grants it is given back; the decision then has stage
// exact and its Remaining is [RemainingUnknown]. A denied request takes nothing. The
// decision is what the rule would do if enforced: the caller must check the rule's mode. n
// = 0 asks like [Rule.Peek].
func (r *Rule) Take(ctx context.Context, key Key, n uint64) Decision {
	return r.engine().Take(ctx, engine.Key(key), n)
}

// TakeUpTo takes as many of n units for key as fit, and returns how many. It fills the
// client's bucket to the brim where [Rule.Take] would take nothing. It takes whole units,
// or [RuleConfig].Thousandths of one. More than the rule's burst never fits.
//
// The decision is Allowed if any unit was taken, and describes the bucket afterwards: the
// level is the burst minus Remaining or, to the µs, what leaks in TimeToEmpty. Only an
// exact bucket knows it. Below the suspicion threshold all n units are taken and Remaining
// is [RemainingUnknown], so a caller that always needs the level sets [RuleConfig].Strict.
// RetryAfter is the time until one unit fits if none did.
//
// It waits for a shared exact tier as Take does. If the failure policy decides, it takes
// all n units with FailOpen and none with FailClosed. n = 0 asks like [Rule.Peek].
//
// What is taken counts as a request of that many units. So P2 holds for any mix of Take and
// TakeUpTo, and by P1 a client gets at least what conforms. All n units count towards
// suspicion, taken or not, and with [RuleConfig].CountDenied in a sliding window too.
func (r *Rule) TakeUpTo(ctx context.Context, key Key, n uint64) (d Decision, taken uint64) {
	return r.engine().TakeUpTo(ctx, engine.Key(key), n)
}

// Wait is [Rule.Take] for a request that may wait instead of being denied, for at most
// [RuleConfig].MaxWait. It blocks until the n units fit the client's bucket and then takes
// them. Waiters for the same client are served in the order in which they came, and only
// callers of Take and TakeUpTo overtake them.
//
// It denies at once if the units will not fit in time, exceed the burst or find no free
// slot in the queue ([Config.Wait]). RetryAfter is then the time until the units would fit
// after those of all waiters. If the rule is in shadow mode or has no MaxWait, or its
// limiter has a [Config.Clock], Wait is Take. A waiter whose ctx ends is denied as by Take
// and has taken nothing, and the next one moves up. [Limiter.StopWaiting] denies all of
// them.
//
// A waiter is also denied, without an error and with nothing taken, if another node or a
// caller of Take took the units. It returns at most 10 ms and one StoreTimeout after
// MaxWait, provided that its goroutine gets to run. If [Limiter.With] changes the limit
// meanwhile, the new limit applies from then on, in the same order, for as long as either
// of the two lets it wait.
//
// A request makes no decision while it waits, and counts once in [Rule.Stats]. If nothing
// waits, Wait does not allocate and costs little more than Take.
func (r *Rule) Wait(ctx context.Context, key Key, n uint64) Decision {
	return r.engine().Wait(ctx, engine.Key(key), n)
}

// Peek reports whether n units would be admitted now, as far as this node knows. It takes
// nothing.
func (r *Rule) Peek(key Key, n uint64) Decision { return r.engine().Peek(engine.Key(key), n) }

// Settle corrects the charge of an admitted request once its real cost is known: n units
// instead of the charged ones. since is the limiter's time ([Limiter.Now]) when the request
// was charged, or earlier; an hour too early is safe and gives nothing back.
//
// If the request cost more, the difference is charged as far as it fits, as by
// [Rule.TakeUpTo]: the bucket is full at most, so no client has to wait longer than a full
// one takes to leak. Settle returns how many units that were. It waits for a shared exact
// tier as Take does.
//
// If it cost less, the difference is given back, except for what would have leaked since,
// because it is not known whether the bucket held anything else that leaked meanwhile. So
// P2 holds for the final costs of requests, however long they took (decision 27). A window
// gives units back until it ends, and a log none. With a shared tier they are given back as
// by [Rule.Refund].
//
// Settle makes no decision and counts as none. It does not allocate.
func (r *Rule) Settle(ctx context.Context, key Key, charged, n uint64, since time.Duration) (more uint64) {
	return r.engine().Settle(ctx, engine.Key(key), charged, n, since)
}

// Refund gives back n units that were taken for key, as far as its exact bucket still holds
// them. Give back only what was taken, and soon; for a window, before it ends. P2 treats a
// refunded request as one that was never made.
//
// With a shared exact tier the units are back in this node's table at once, and in the
// store after the operation in flight. They may be lost if the store is unavailable or
// takes longer than [Config.StoreTimeout]: then the client stays charged. Other nodes keep
// denying the client by what they knew until that has leaked.
func (r *Rule) Refund(key Key, n uint64) { r.engine().Refund(engine.Key(key), n) }

// Reset empties the exact bucket of key, so that a client that was denied is admitted
// again. Its sketch cells are shared with other clients and keep their levels.
//
// With a shared exact tier the bucket is empty in this node's table at once, and in the
// store after the operation in flight. Neither answers under way nor what other nodes
// remember fill it again. A reset is lost if the store is unavailable. Other nodes keep
// denying the client by what they knew until that has leaked, for at most the time in which
// the bucket drains: reset it there too.
func (r *Rule) Reset(key Key) { r.engine().Reset(engine.Key(key)) }

// Tier returns the rule of [RuleConfig].Tiers[i]. It has the name, index, mode and counters
// of r, and its own exact buckets. There is no filter and no sketch before them, so it
// admits no more than its own burst and rate. It takes the keys of r. A request of a client
// that has this limit is charged to the tier and not to r.
func (r *Rule) Tier(i int) *Rule { return (*Rule)(r.engine().Tier(i)) }

// AtRate returns the rule at another rate, which the caller knows for a client, for example
// from a proxy that knows the client's plan. Charge requests of that client to it instead
// of r. It has the name, index, mode, cost, counters and keys of r.
//
// The rate is limited to [RuleConfig].MaxRate, and is at least 1/d and Cost in 12 days. The
// burst is the N of the rate, at most that of MaxRate and at least Cost; it leaks in 12
// days at most. For the rule's own rate AtRate returns r itself.
//
// A client has one bucket, whatever rates are named for it. Each unit keeps the bucket busy
// for 1/r of the rate at which it was charged. So a client whose rate alternates is never
// admitted more than at the highest of them, and one whose rate is raised has to wait until
// what it has taken at the lower rate has leaked at that rate.
//
// AtRate panics on a rule without MaxRate. It allocates only for a rate that was not named
// lately, and takes no lock otherwise.
func (r *Rule) AtRate(rate Rate) *Rule { return (*Rule)(r.engine().AtRate(rate)) }

// TopTalkers returns the table of the clients that sent most to this rule, for package
// toptalkers to rank, or nil without [Config.TopTalkers]. Every hit that gets past the
// first-seen filter is counted in it, admitted or not; hits that the bucket table denies
// are sampled at random under load. One owner ends its epochs: a toptalkers.Ranking,
// package server or package gossip. The limiter itself never does.
func (r *Rule) TopTalkers() sketch.RuleTalkers { return r.engine().TopTalkers() }

// Stats returns a snapshot. Counters that concurrent decisions change may differ by a few.
func (r *Rule) Stats() RuleStats { return r.engine().Stats() }
