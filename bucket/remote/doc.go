// Package remote has the parts that all networked [bucket.Store] implementations share. A
// [Driver] knows one kind of store: how to carry out a batch, and what its errors mean.
// This package has the rest: queue, workers, breaker and counters, and [Clocks], by which a
// driver dates operations. It does no I/O.
//
//	Submit ─► queue ─► worker ─► Driver.Exec: one batch of ≤128 operations ─► Done, once each
//	           │         └ breaker open? fail at once
//	           └ full? ErrBusy
//
// # What callers wait for
//
// Nothing: Submit queues the operation and Done delivers the answer. A caller
// that cannot wait any longer decides on its own and may still use the answer
// when it comes: to an operation that was carried out in time, since the store
// refuses others. Each worker has one batch in flight while the queue collects
// the next. So batches grow with the load, and a lone operation is sent at once.
//
// # Failure
//
// A batch is bad if half of its operations failed, or if it took longer than
// Config.Timeout. Five bad batches in a row, however far apart, or half of those
// that end within a second, open the breaker. While it is open Submit returns
// [bucket.ErrAway] and one goroutine probes the store at growing intervals.
// Operations never serve as probes: no request waits for a store that may be down,
// and a store recovers without traffic.
//
// Every failure has a [Class] from the driver's fixed set. The class's cause decides what
// follows: an unavailable store may recover without a change, while a wrong configuration
// is logged once a minute and probed at the longest interval.
//
// Nothing here sends an operation twice. Only a driver can know that an operation
// was not carried out, and may then send it again within its Exec.
//
// # Distance
//
// A store whose round trip exceeds Config.Timeout causes no errors and is still
// useless, as every answer is late. So this package keeps the shortest round
// trip of the last 10 to 20 s, and logs it with the fix when it exceeds half of
// the timeout. Round trips come from batches and probes, and from
// [Driver.Measure] at the start and after a probe has timed out.
//
// # Goroutines
//
// Start starts Config.Workers workers, which call Exec and Done, and one prober. A
// measurement runs in a separate goroutine. Close waits for all of them.
package remote
