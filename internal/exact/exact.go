// Package exact enforces one limit exactly for each of its clients.
//
// A limit is a shape, a table and, if nodes share it, a store. A [bucket.Shape] says how much a
// client may take, the [bucket.Table] in [Buckets] holds what this node knows about its suspects, and
// [Shared] asks the store on their behalf. Filter, sketch and bans come before that, in package
// internal/engine.
//
// A rule or tier owns them. It makes the table, and its successor takes it over. Without a store the table is
// all that is known. With one the table has the store's answers and what this node admitted without it. The
// table denies without asking. The store decides the rest if it answers in time, and otherwise the rule's
// failure policy does. Later takes report to the store what it may not know.
package exact
