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

// New checks the configuration and takes all the memory of the local tier. Its
// error joins everything that is wrong.
func New(c Config) (*Limiter, error) {
	l, err := engine.New(c.engine())
	return (*Limiter)(l), err
}

// With returns a limiter of another configuration that goes on with the state
// of this one. Both may be used at once, for as long as it takes the requests
// that have l to finish; then drop l. Its memory is that of the rules whose limit or
// sizes ([Plan]; those of a rule can change with the others') are new, on top of
// what l has until it is dropped.
//
// A rule goes on with the one of the same Name, KeyKind and prefixes. It has the
// same counters, and a [Key] that one of the two rules made is good for both. Whoever is
// denied stays denied unless the limit is looser: by another rate or burst a bucket
// keeps its units, at most a full bucket of the new limit. Windows keep their counts,
// and logs their latest times, if the period stays. With another period, or an
// algorithm that is not the other name of the same one, buckets are empty. A tier goes on with one
// of the same limit. Mode, cost, EscalateAt, Strict, OnFailure and all else take effect at once.
// Bans stay, none longer than the new Max, but for those of a shadow rule that
// is enforced from now on. Top talkers stay if [Config.TopTalkers] does. With another
// [Config.Store] the table goes on and tells the new store what it knows. All other rules
// begin anew, with empty buckets.
//
// P1 and P2 hold across the change: docs/decisions/0033-another-limit.md says what
// they mean. What l admits after that counts in the new limiter too, and C includes
// it. While buckets move to another table, requests that are checked exactly wait, about 0.2 µs
// for each bucket that has not drained. Of several limiters that With has made of one, the last
// goes on with it. A With that fails has changed nothing. In a chain of changes what the first
// limiter admits, and whom it bans, counts in all that came after it, also if those between were
// dropped and are collected: none keeps another in memory.
//
// The time goes on, so Clock is that of l or nil. The first-seen filter goes on
// if its window and size stay. Else it begins anew and admits nobody as first
// seen for a window, since it does not know whom the old one admitted: until
// then the sketch is asked about every request.
//
// A zero Secret means that of l; with another one all rules begin anew.
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

// Now is the limiter's time: since it was made, on the machine's monotonic
// clock, or what [Config.Clock] says.
func (l *Limiter) Now() time.Duration { return l.engine().Now() }

// LastTime is the latest time that the rules can count exactly. It is between
// four years, for a rate such as 65,533/s, and the 292 years of a
// [time.Duration], for most. A [ManualClock] cannot be set beyond it, and a
// limiter that has run for so long panics.
//
// Fixed windows of less than 2.2 s are counted until a wall time, that of a second until
// 2106-02-07 06:28:16 UTC. A machine's or store's clock that is later is not followed, and New
// refuses to begin by it.
func (l *Limiter) LastTime() time.Duration { return l.engine().LastTime() }

// Advance does the work that is due, so that no request has to. Call it every
// second or so; a limiter without it works the same.
func (l *Limiter) Advance() { l.engine().Advance() }

// FirstSeenClients estimates the distinct clients of all rules in the current
// window of the filter, 0 without a filter.
func (l *Limiter) FirstSeenClients() uint32 { return l.engine().FirstSeenClients() }

// StopWaiting lets everyone go who waits in this limiter, or in one that it goes on with
// or that goes on with it ([Limiter.With]): they are denied now. From then on nobody
// waits. It is for a server that shuts down, returns at once, and may be called again.
func (l *Limiter) StopWaiting() { l.engine().StopWaiting() }
