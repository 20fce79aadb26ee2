// Package testkit is the roof of what only tests need, and bench where it measures
// faults; the product links none of it.
//
//   - redistest starts real Redis servers, alone, with replicas, sentinels and in a
//     cluster, and speaks to them without a client library.
//   - faultproxy is a TCP proxy that misbehaves on purpose.
//   - redisfault is every fault of Redis, and of the line to it, as a table.
//   - rawhttp speaks HTTP/1 over bare connections.
//   - racetest makes goroutines meet in races a few ns wide.
//
// Tests over every implementation of a store are in bucket/storetest.
package testkit
