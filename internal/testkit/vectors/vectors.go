// Package vectors has the test vectors of the limiters whose users come here:
// calls with the decisions and levels that their own tests or documents say
// (docs/migrate.md has the sources and what differs). They run through the
// library, on buckets in memory or on a shared store.
//
// Left out is what is not about decisions and levels, such as names and lifetimes
// of keys, and what a source does by a bug. What fastlimit does not do, or not yet, is in
// [Behaviours] with what it does instead.
package vectors

import (
	"time"

	"github.com/fastlimit/fastlimit"
)

// Vector is a bucket, window or log and a row of calls on it. Sources that count
// fractions are scaled: a unit is a thousandth of theirs where the name says milli.
type Vector struct {
	Name        string
	Rate        fastlimit.Rate
	Burst       uint64 // 0 of windows and logs
	Algorithm   fastlimit.Algorithm
	CountDenied bool
	Own         []Own         // limits of some clients, beside the vector's
	MaxWait     time.Duration // of calls that wait
	Places      int           // of a client in line; 0 means the default

	// Before is the level that the bucket has at first. One above Burst is of a
	// limit that was lowered since: only a shared store has it, as a limiter in
	// memory begins anew.
	Before uint64
	Calls  []Call
}

// Own is a client's own limit.
type Own struct {
	Who       string
	Rate      fastlimit.Rate
	Burst     uint64
	Unlimited bool
}

// Verb is what a call does.
type Verb uint8

// The verbs.
const (
	Take   Verb = iota // all of N or nothing
	Fill               // as many of N as fit
	Refund             // what sources write as a negative amount
	Peek               // whether N would be taken
	Wait               // a Take that waits; those after it do not wait for its outcome
)

// Call is one call and what is known afterwards.
type Call struct {
	At      time.Duration // since the test began, which is at midnight
	Do      Verb
	N       uint64
	Who     string        // of several clients
	Allowed bool          // of Take, Peek and Wait; of Fill whether all of N was taken
	In      time.Duration // of Wait, when it is decided, since the test began
	Level   uint64        // units in the bucket afterwards; of windows and logs what counts, at most their number; not of Wait
	Reset   time.Duration // until one more unit fits; -1: the source does not say
	Full    time.Duration // until the bucket is empty; -1: the source does not say
}

// slack is the StoreTimeout here, as short as it can be: a shared store's bucket
// holds what leaks in that time more, so that its resets come earlier by it.
const slack = time.Microsecond

// unsaid is a time that the source does not tell.
const unsaid time.Duration = -1

// All are the vectors of all sources.
func All() (all []Vector) {
	for _, source := range [][]Vector{sharkey(), prorate(), pecorino(), nerd(), textbook()} {
		all = append(all, source...)
	}
	return all
}
