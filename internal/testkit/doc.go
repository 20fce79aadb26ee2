// Package testkit is the parent of what only tests need, and bench where it measures
// faults; the product links none of it.
//
//   - redistest starts real Redis servers, alone, with replicas, sentinels and in a
//     cluster, and speaks to them without a client library.
//   - pgtest starts real PostgreSQL servers.
//   - faultproxy is a TCP proxy that misbehaves on purpose.
//   - redisfault is every fault of Redis, and of the line to it, as a table.
//   - netns has clients by the thousand, and a packet filter, without root.
//   - rawhttp speaks HTTP/1 over bare connections.
//   - streams is what attackers send over them, and a second reader of HTTP/1.
//   - fleet has nodes decide together on one store, beside oracles.
//   - leaks finds goroutines that tests leave behind.
//   - racetest makes goroutines meet in races a few ns wide.
//
// Tests over every implementation of a store are in bucket/storetest: one operation
// after another there, and in its package trial under load, under faults and at random.
package testkit

// T is the part of testing.TB that servers and proxies need. bench implements it
// to run them outside of a test.
type T interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
	TempDir() string
}
