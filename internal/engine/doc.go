// Package engine is the limiter behind package fastlimit, whose types are the types of this package
// under names of their own: *fastlimit.Rule converts to [*Rule] and back at no cost. Package fastlimit
// documents what an embedder calls. What only this module's packages call is here (module.go), and they
// convert to reach it.
//
// # One request
//
//	table ──► first-seen filter ──► sketch ──► exact bucket
//
// decide.go has the pipeline of one rule, charges.go that of several rules, and attempt.go that of
// a request that may wait. They share the same steps.
//
// # State
//
// A [Limiter] owns the clock, the filter and the secret. A [Rule] owns its sketch and
// buckets (package internal/exact), the table of bans (package ban), counters, the table of top talkers and the queue of
// waiters (package internal/queue). Tiers, and limits that [Rule.AtRate] has made, are rules that
// share all of this with their base but the buckets; those of AtRate share the buckets too.
// Everything may be used by any number of goroutines. No lock is held while a store is asked.
//
// # Changes
//
// [Limiter.With] makes the successor of a limiter that is in use (with.go). Rules with the same clients
// take over the predecessor's state (handover.go), and state.go writes it to a file and reads it.
package engine
