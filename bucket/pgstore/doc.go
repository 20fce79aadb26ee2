// Package pgstore is a [bucket.Store] in PostgreSQL 14 or later, where the nodes of a
// fleet share their exact buckets.
//
//	bucket/remote: queue, workers, breaker ─► driver.Exec ─► one SELECT operate(…) for ≤128 buckets ─► settle, once each
//
// This package is the driver: the statement, the schema, the server's clock and the classes
// of its errors. Package bucket/remote documents what callers wait for and what happens
// while PostgreSQL is unavailable.
//
// # One operation
//
// A bucket is one row, with the fields of [step.State] and the time at which it
// expires. A function in the schema carries out a batch as one statement, which is
// one transaction and one round trip. It repeats [step.Apply] in integers, bit for
// bit (TestSQLIsTheModel).
//
// # No lost update
//
// At READ COMMITTED, the usual isolation level, two transactions that read a row and then
// write it lose an update. So the function first takes an advisory lock for each key, in
// ascending order of the keys' hashes, so that batches never deadlock. Only then does it
// read the clock and the rows. Advisory locks cost no write, so a denial writes nothing,
// and keys without a row have a lock, too. docs/decisions/0018 compares this with locks on
// rows and with an upsert.
//
// # What is never done twice
//
// A take whose answer was lost may have been charged, so nothing is sent again. If a
// connection breaks, everything in flight on it fails; an operation that the server carries
// out after that is refused if it is late.
//
// # Pruning
//
// One of the nodes deletes expired rows, a few pages at a time, and rests four times as
// long as it works. The key's index is the only one, since an index on the time of expiry
// would have to be written with every charge.
//
// # Goroutines
//
// Those of package remote, those of pgxpool, and one that prunes. Close waits for all.
package pgstore
