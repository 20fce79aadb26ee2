// Package redisstore keeps exact buckets in Redis, where the nodes of a fleet
// share them: a [bucket.Store] on one server, on Sentinel or on Cluster, Redis
// 6.2 or later or Valkey.
//
//	bucket/remote: queue, workers, breaker ─► driver.Exec ─► one EVALSHA for ≤128 buckets ─► settle, once each
//
// This package is the driver: commands, the script, the topology, the clocks of
// the servers and the classes of their errors. What callers wait for, and what
// happens while Redis is away, is in package bucket/remote.
//
// # One operation
//
// A bucket is one key with its level, the time of that, and the ticks of a
// unit; where something was given back also until when floors are ignored; and
// the time to live after which none of it counts. One Lua script reads the
// server's clock and carries out a batch: for each bucket it refuses what is
// late, leaks, gives back, raises, charges and writes. One round trip, atomic.
// Levels are in the ticks of [bucket.Shape], so all arithmetic is on integers
// below 2^53, which Lua has exactly. [step.Apply] does the same in Go, and
// TestLuaIsTheModel compares the two bit for bit. A clock that steps back counts
// as no time passed, and the bucket is rebased on it. A denial writes nothing.
//
// One run of the script for a batch costs Redis half of what one for each
// bucket does (docs/decisions/0006). In a cluster, where keys have their places,
// a batch is a pipeline of commands with one key; so it is behind an address
// that has once refused several (CROSSSLOT).
//
// What is late, and what a floor is still worth, the script tells by its clock.
// So operations are dated by that clock: an answer says what it showed at some
// time before it came, which is a lower bound of what it shows at any time
// since. Whoever has no recent answer of a server asks it first.
//
// # What is never done twice
//
// A take whose answer was lost may have been charged, so nothing that might
// have been carried out is sent again: not by this package, and not by the
// client, whose retries and redirections are off (its cluster pipeline sends
// whole batches again). What Redis refuses before doing anything, NOSCRIPT, MOVED,
// ASK and CROSSSLOT, is sent once more where it belongs.
//
// # Cluster
//
// In a cluster the breaker is one for all shards: a shard that refuses
// connections costs its own operations only, one that swallows packets slows
// all pipelines and so takes the store away until the cluster has replaced it.
package redisstore
