// Package remote is what every [bucket.Store] across a network has in common. A
// [Driver] knows one kind of store: how to carry out a batch, and what its
// errors mean. This package has the rest, and no I/O.
//
//	Submit ─► queue ─► worker ─► Driver.Exec: one batch of ≤128 operations ─► Done, once each
//	           │         └ breaker open? fail at once
//	           └ full? ErrBusy
//
// # What callers wait for
//
// Nothing: Submit queues and Done tells. A caller that cannot wait any longer
// decides by itself and may use the answer when it comes. A worker has one
// batch in flight, and the next batch gathers meanwhile. So batches are as large
// as the load asks for, and a lone operation is sent at once.
//
// # Failure
//
// A batch is bad if half of its operations failed, or if it took longer than
// Config.Timeout. Five bad batches in a row, or half of those within a second,
// open the breaker. While it is open Submit returns [bucket.ErrAway] and one
// goroutine probes the store at growing intervals. Operations never probe, so no
// request waits for a recovery, and none is needed for one.
//
// Every failure has a [Class] from the driver's closed set. Its cause decides
// what follows: a store that is away may come back by itself, while a
// configuration that cannot work is logged once a minute and probed at the
// longest interval.
//
// Nothing here sends an operation twice. Only a driver can know that an operation
// was not carried out, and may then send it again within its Exec.
//
// # Distance
//
// A store whose round trip exceeds Config.Timeout reports no error and is still of
// no use, as every answer is late. So the shortest round trip of the last 10 to
// 20 s is kept, and logged with the fix when it exceeds half of the timeout. It
// comes from batches and probes, and from [Driver.Measure] at the start and after
// a probe has timed out.
//
// # Goroutines
//
// Start starts Config.Workers workers, which call Exec and Done, and one prober.
// A measurement has one for as long as it takes. Close ends them all.
package remote
