// Package exact keeps one limit exactly, for each of its clients.
//
// An allowance is a shape, a table and, if nodes share their limits, a store: a
// [bucket.Shape] says how much a client may take, the [bucket.Table] of [Buckets] holds what
// this node knows of its suspects, and [Shared] asks the store on their behalf. Filter, sketch
// and bans come before all that, and are package fastlimit's.
//
// A rule, or a tier of one, owns them: it makes the table, and hands it on to the rule that goes
// on with it. Without a store the table is all that is known. With one the table knows what the
// store has answered and what this node has admitted without it. It denies by itself; all else
// the store decides if it answers in time, and else the rule's failure policy, after which takes
// tell the store what it may not know.
package exact
