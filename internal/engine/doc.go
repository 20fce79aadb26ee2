// Package engine is the limiter behind package fastlimit, which defines its types from the types here
// (type Rule engine.Rule), documents them and forwards calls. Methods for this module's own packages are
// in module.go. Their callers convert: (*engine.Rule)(rule).Index().
//
// # One request
//
//	ban ──► table ──► first-seen filter ──► sketch ──► exact bucket
//
// decide.go has the steps: checkBan, known, screen and exact. (*Rule).take runs them for one rule,
// (*Limiter).takeAll (charges.go) for several, and an attempt (attempt.go) for a request that may wait. A
// client that is over its limit is denied by known, or in take, which has it inlined.
//
// # Words
//
// A suspect is a client whose level in the sketch has reached θ·B: θ is the rule's escalate_at, B its burst. Suspects
// are checked by their exact bucket, in the exact tier. A rule's tiers are something else: the limits of some of its
// clients. C is a client's units in flight, J the longest wait for a shared store; docs/promises.md has P1 to P6. A
// stripe is one of the copies of a counter that cores share, and an epoch how long the top talkers' table accumulates.
//
// # State
//
// A [Limiter] owns the clock, the filter and the secret. A [Rule] owns its sketch, its
// buckets (package internal/exact), its bans (package ban), its counters, its top talkers and the queues of
// waiting requests (package internal/queue). A tier has buckets and queues of its own and no sketch, and
// shares the rest with its base. A rule from [Rule.AtRate] shares buckets and queues too. All of it is safe
// for concurrent use. No lock is held while a store is asked.
//
// # Changes
//
// [Limiter.With] makes a limiter's successor (with.go). Rules with the same clients take over their
// predecessor's state (transfer.go), and report to their successors for as long as both are in use
// (successor.go). state.go saves and loads state.
package engine
