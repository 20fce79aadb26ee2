package fastlimit

import (
	"time"

	"github.com/fastlimit/fastlimit/internal/engine"
)

// Limiter is a set of rules that share memory. It starts no goroutines and is
// safe for concurrent use. The zero value is not usable: call [New].
type Limiter engine.Limiter

// engine returns the same limiter as package engine knows it.
func (l *Limiter) engine() *engine.Limiter { return (*engine.Limiter)(l) }

// New checks the configuration and allocates all the memory of the local tier. Its error
// joins everything that is wrong.
func New(c Config) (*Limiter, error) {
	l, err := engine.New(c.engine())
	return (*Limiter)(l), err
}

// With returns a limiter with another configuration that takes over the state of l. Both
// may be used at once while the requests that have l finish; then drop l. The new limiter
// allocates memory for the rules whose limit or sizes are new ([Plan]; a rule's sizes can
// change with those of the others), on top of what l has until it is dropped.
//
// A rule takes over the state of the rule with the same Name, KeyKind and prefixes. It has
// the same counters, and a [Key] that one of the two rules made works with both. Clients
// that are over their limit stay so unless the limit is looser. With another rate or burst
// a bucket keeps its units, at most a full bucket of the new limit. Windows keep their
// counts, and logs their latest times, if the period stays. With another period, or an
// algorithm that is not just the other name of the same one, buckets are empty. A tier
// takes over the state of one with the same limit. Mode, cost, EscalateAt, Strict,
// OnFailure and everything else take effect at once. Bans stay, none longer than the new
// Max; those of a shadow rule that is now enforced end. Top talkers stay if
// [Config.TopTalkers] does. With another [Config.Store] the table stays and sends what it
// knows to the new store. All other rules start with empty buckets.
//
// P1 and P2 hold across the change: docs/decisions/0033-another-limit.md says what that
// means. What l admits after the change counts in the new limiter too, and C includes it.
// While buckets move to another table, requests that are checked exactly wait, about 0.2 µs
// for each bucket that has not drained. If With is called on one limiter several times, the
// last result takes over its state. A With that fails changes nothing. In a chain of
// changes the requests that the first limiter admits and the clients that it bans count in
// all later ones, even if those in between were dropped and collected: none keeps another
// in memory.
//
// The limiter's time continues, so Clock is that of l or nil. The first-seen filter stays
// if its window and size do. Otherwise it starts empty and admits no client as first seen
// for a window, since it does not know which clients the old one admitted. Until then every
// request is checked by the sketch.
//
// A zero Secret means that of l; with another one no rule takes over any state.
func (l *Limiter) With(c Config) (*Limiter, error) {
	next, err := l.engine().With(c.engine())
	return (*Limiter)(next), err
}

// Rule returns the rule of that name. Resolve it once, not per request.
func (l *Limiter) Rule(name string) (*Rule, bool) {
	r, ok := l.engine().Rule(name)
	return (*Rule)(r), ok
}

// Rules returns all rules in the order of the configuration.
func (l *Limiter) Rules() []*Rule {
	rules := l.engine().Rules()
	all := make([]*Rule, len(rules))
	for i, r := range rules {
		all[i] = (*Rule)(r)
	}
	return all
}

// Plan returns how the memory is shared out.
func (l *Limiter) Plan() Plan { return l.engine().Plan() }

// Now returns the limiter's time: the time since it was made, on the machine's monotonic
// clock, or the time of [Config.Clock].
func (l *Limiter) Now() time.Duration { return l.engine().Now() }

// LastTime returns the latest time up to which the rules count exactly. It is between four
// years, for a rate such as 65,533/s, and, for most rates, the 292 years of a
// [time.Duration]. A [ManualClock] cannot be set beyond it, and a limiter that runs beyond
// it panics.
//
// Fixed windows of less than 2.2 s are counted up to a wall time, those of a second until
// 2106-02-07 06:28:16 UTC. A machine's or store's clock that is later is not followed, and
// New refuses to start from it.
func (l *Limiter) LastTime() time.Duration { return l.engine().LastTime() }

// Advance does the work that is due, so that no request has to. Call it about every second.
// A limiter works the same without it.
func (l *Limiter) Advance() { l.engine().Advance() }

// FirstSeenClients estimates the number of distinct clients of all rules in the current
// window of the filter. It returns 0 without a filter.
func (l *Limiter) FirstSeenClients() uint32 { return l.engine().FirstSeenClients() }

// StopWaiting denies all requests that wait in this limiter, or in one before or after it
// in a chain of [Limiter.With]. From then on no request waits. It is for a server that
// shuts down. It returns at once, and may be called again.
func (l *Limiter) StopWaiting() { l.engine().StopWaiting() }
