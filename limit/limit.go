// Package limit is what a rule says, and how memory is shared out.
//
// A [RuleConfig] says who its clients are, how much each of them may take, and what happens
// to a request that does not fit. Checks fill in the defaults and tell all mistakes at once,
// each a [FieldError]. A [Decision] is what becomes of one request, and which [Stage] said so.
//
// [NewPlan] shares the memory of a limiter out: to the first-seen filter, and to the sketch,
// the bucket table, the bans and the top talkers of each rule by what it needs for the traffic
// that it is planned for. A [Plan] has these sizes, how much traffic they carry, and what a
// client is admitted at most ([RulePlan.MaxBurst], [RulePlan.ClusterBound]). Nothing here
// takes memory, decides on a request or knows the time: package fastlimit does, which makes a
// limiter of a plan, and whose comment has the promises and what θ, T, r, B and J are.
package limit

import (
	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/field"
)

// BanPolicy says who is banned, and for how long.
type BanPolicy = ban.Policy

// Algorithm is how a rule counts.
type Algorithm = bucket.Algorithm

// The algorithms of a rule.
const (
	// LeakyBucket leaks at the rate and holds the burst.
	LeakyBucket = bucket.LeakyBucket
	// TokenBucket is its mirror: a bucket of burst tokens, full at first, that is
	// refilled at the rate, one token a unit. It decides as LeakyBucket does, and
	// goes on with its state. [Decision].Remaining is the tokens left, TimeToEmpty
	// the time until the bucket is full again.
	TokenBucket = bucket.TokenBucket
	// FixedWindow admits Rate.N units in each period Rate.Per, from a second to 366
	// days, N below 2^32. Periods begin at multiples of it since 1970-01-01 00:00 UTC,
	// by the machine's clock, or the store's if there is one. Around the end of a
	// period a client may take 2·N at once. There is no burst; [Decision].Remaining is
	// of this period, TimeToEmpty the time to its end.
	FixedWindow = bucket.FixedWindow
	// SlidingWindow counts in the periods of FixedWindow, and adds the count of the
	// period before by the share of it that the period ending now would cover: at most
	// Rate.N in all, so no 2·N at once where a period ends. Rate.Per is whole sixteenths of a
	// second; Rate.N is at most 32,767 of a second, 262,143 of a minute, 2,097,151 of an hour.
	SlidingWindow = bucket.SlidingWindow
	// SlidingLog keeps the time of each unit, and admits Rate.N in any period Rate.Per.
	// It takes 8 bytes of memory for each unit of each suspect, which [NewPlan] refuses
	// where they do not fit. Rate.N is at most 4096 with a shared store, else 2^20.
	SlidingLog = bucket.SlidingLog
)

// FieldError is one thing that is wrong with one field of a configuration, in
// strings: Package, Rule if it is a rule's, Field, Problem and Fix. [NewPlan] joins all that it finds;
// errors.As gets at them.
type FieldError = field.Error

// Mode tells whether a rule denies, or only counts what it would deny.
type Mode uint8

// The modes. The zero value is Enforce.
const (
	Enforce Mode = iota
	Shadow       // decide and count, but never deny
)

// String is the mode's name in configuration and metrics.
func (m Mode) String() string {
	if m == Shadow {
		return "shadow"
	}
	return "enforce"
}

// OnFailure is what a rule does with a request whose shared exact bucket could
// not be asked in time.
type OnFailure uint8

// The failure policies. The zero value is FailLocal.
const (
	// FailLocal lets this node's own table decide, which holds what the
	// shared tier answered last: every node keeps the limit by itself.
	FailLocal  OnFailure = iota
	FailOpen             // admit
	FailClosed           // deny: the stated exception to P1
)

// String is the policy's name in configuration.
func (f OnFailure) String() string {
	switch f {
	case FailOpen:
		return "open"
	case FailClosed:
		return "closed"
	}
	return "local"
}
