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
// A bucket is one key. It holds the level, the time it was written, the ticks of
// a unit and, after a refund or a reset, until when floors are ignored; it expires
// when none of that counts any more. One Lua script reads the server's clock and
// carries out a batch: for each bucket it refuses what is late, leaks, gives back,
// raises to the floor, charges and writes. One round trip, atomic.
// Levels are in the ticks of [bucket.Shape], so all arithmetic is on integers
// below 2^53, which Lua has exactly. [step.Apply] does the same in Go, and
// TestLuaIsTheModel compares the two bit for bit. A clock that steps back counts
// as no time passed, and the bucket is rebased on it. A denial writes nothing.
//
// One run of the script for a batch costs Redis half of what one for each
// bucket does (docs/decisions/0006). In a cluster, where each key belongs to one
// node, a batch is a pipeline of commands with one key each. The same goes for an
// address that has refused a command with several keys (CROSSSLOT).
//
// The script uses the server's clock to tell whether an operation is late and
// what its floor is still worth, so operations are dated in the server's time.
// Each answer carries a reading of that clock, taken before the answer arrived,
// which gives a lower bound of the server's time at any moment since. Without a
// recent reading the server is asked first (TIME), which costs a round trip.
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
