// Package redisstore is a [bucket.Store] in Redis, where the nodes of a fleet
// share their exact buckets. It runs on one server, Sentinel or Cluster, with
// Redis 6.2 or later, or Valkey.
//
//	bucket/remote: queue, workers, breaker ─► driver.Exec ─► one EVALSHA for ≤128 buckets ─► settle, once each
//
// This package is the driver: commands, the script, the topology, the servers' clocks and
// the classes of their errors. Package bucket/remote documents what callers wait for and
// what happens while Redis is unavailable.
//
// # One operation
//
// A bucket is one key. It holds the level, the time it was written, the ticks of
// a unit and, after a refund or a reset, until when floors are ignored; it expires
// once none of that matters any more. Windows keep counts and a log keeps times
// instead (docs/redis.md). One Lua script reads the server's clock and
// carries out a batch: for each bucket it refuses what is late, leaks, refunds,
// raises to the floor, charges and writes. That takes one round trip and is atomic.
// Levels are in the ticks of [bucket.Shape], so all arithmetic is on integers
// below 2^53, which Lua represents exactly. [step.Apply] does the same in Go, and
// TestLuaIsTheModel compares the two bit for bit. If the clock steps back, no
// time has passed, and the bucket continues from the new time. A denial writes
// nothing.
//
// Running the script once for a batch costs Redis half of running it for each bucket
// (docs/decisions/0006). In a cluster, where each key belongs to one node, a batch is a
// pipeline of commands with one key each. The same applies to an address that has refused a
// command with several keys (CROSSSLOT).
//
// By the server's clock the script determines whether an operation is late and how much of
// its floor is left, so operations are dated in the server's time. Each answer carries a
// reading of that clock from before the answer arrived, which gives a lower bound of the
// server's time at any moment since. Without a recent reading the server is asked first
// (TIME), which costs a round trip.
//
// # What is never done twice
//
// A take whose answer was lost may have been charged, so nothing that might have
// been carried out is sent again: neither by this package nor by the client,
// whose retries and redirections are off, as its cluster pipeline would resend
// whole batches (TestClientNeverResends). What Redis refuses before doing
// anything, with NOSCRIPT, MOVED, ASK or CROSSSLOT, is sent again where it belongs.
//
// # Cluster
//
// All shards of a cluster share one breaker. A shard that refuses connections
// fails only its own operations, and probes pass as long as less than half of
// their keys fail; one that drops packets slows all pipelines, so the store is
// away until the cluster has replaced that shard.
package redisstore
