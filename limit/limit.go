// Package limit defines the settings of a rule, and shares out the memory of a limiter.
//
// A [RuleConfig] says who the clients of a rule are, how much each of them may take, and
// what happens to a request that does not fit. Checks fill in the defaults and report all
// mistakes at once, each as a [FieldError]. A [Decision] is the result for one request, and
// its [Stage] is the part of the limiter that decided.
//
// [NewPlan] shares out the memory of a limiter: to the first-seen filter, and to the
// sketch, the bucket table, the bans and the top talkers of each rule, by what each rule
// needs for the traffic that it is planned for. A [Plan] has these sizes, how much traffic
// they carry, and how much a client is admitted at most ([RulePlan.MaxBurst],
// [RulePlan.ClusterBound]). Nothing here allocates that memory, decides on a request or
// knows the time. Package fastlimit does: it makes a limiter from a plan, and its comment
// defines the promises and θ, T, r, B and J.
package limit

import (
	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/field"
)

// BanPolicy says which clients are banned, and for how long.
type BanPolicy = ban.Policy

// Algorithm is how a rule counts.
type Algorithm = bucket.Algorithm

// The algorithms of a rule.
const (
	// LeakyBucket leaks at the rate and holds the burst.
	LeakyBucket = bucket.LeakyBucket
	// TokenBucket is LeakyBucket counted down: a bucket of burst tokens, full at first,
	// that is refilled at the rate, with one token per unit. It decides as LeakyBucket
	// does, and takes over its state. [Decision].Remaining is the tokens left, TimeToEmpty
	// the time until the bucket is full again.
	TokenBucket = bucket.TokenBucket
	// FixedWindow admits Rate.N units in each period Rate.Per, from a second to 366 days,
	// with N below 2^32. Periods begin at multiples of Rate.Per since 1970-01-01 00:00 UTC,
	// by the clock of the machine or, if there is one, of the store. Around the end of a
	// period a client may take 2·N at once. There is no burst. [Decision].Remaining is for
	// this period, TimeToEmpty the time to its end.
	FixedWindow = bucket.FixedWindow
	// SlidingWindow counts in the periods of FixedWindow, and adds the share of the
	// previous period's count that the period ending now would cover. It admits at most
	// Rate.N in all, so no 2·N at once where a period ends. Rate.Per is whole sixteenths of
	// a second; Rate.N is at most 32,767 for a second, 262,143 for a minute, 2,097,151 for
	// an hour.
	SlidingWindow = bucket.SlidingWindow
	// SlidingLog keeps the time of each unit, and admits Rate.N in any period Rate.Per. It
	// takes 8 bytes of memory for each unit of each suspect; [NewPlan] rejects a rule whose
	// logs do not fit. Rate.N is at most 4096 with a shared store, else 2^20.
	SlidingLog = bucket.SlidingLog
)

// FieldError is one thing that is wrong with one field of a configuration, as strings:
// Package, Rule if the field is a rule's, Field, Problem and Fix. [NewPlan] joins all that
// it finds; errors.As extracts them.
type FieldError = field.Error

// Mode says whether a rule denies requests or only counts those that it would deny.
type Mode uint8

// The modes. The zero value is Enforce.
const (
	Enforce Mode = iota
	Shadow       // decide and count, but never deny
)

// String returns the mode's name in configuration and metrics.
func (m Mode) String() string {
	if m == Shadow {
		return "shadow"
	}
	return "enforce"
}

// OnFailure says what a rule does with a request if the shared exact tier does not answer
// in time.
type OnFailure uint8

// The failure policies. The zero value is FailLocal.
const (
	// FailLocal lets this node's table decide, which holds the shared tier's latest
	// answers: every node enforces the limit separately.
	FailLocal  OnFailure = iota
	FailOpen             // admit
	FailClosed           // deny: the stated exception to P1
)

// String returns the policy's name in configuration.
func (f OnFailure) String() string {
	switch f {
	case FailOpen:
		return "open"
	case FailClosed:
		return "closed"
	}
	return "local"
}
