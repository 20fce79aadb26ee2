// Package feed keeps a kernel up to date with the bans that it enforces. A [Writer] knows
// one kind of kernel: package nft is the one for nftables. This package has the rest: which
// prefixes are banned until when, the queue, batches, back-off and counters. It does no
// I/O.
//
//	Add, Remove ─► bans ─► queue ─► worker ─► Writer.Apply: at most 1,000 changes at once
//	Holds ◄────────┘ ▲                 └ once a second: Writer.Counters, which finds losses too
//	                 └ expire by themselves, here and in the kernel
//
// # Truth
//
// The bans of a [Feed] are authoritative, and the kernel holds a copy. Each ban is in the
// queue at most once, however often it changes meanwhile, so the latest request is what
// gets sent. After the queue has emptied, the kernel holds the bans in force, each until
// its own end, and no others, up to 20 ms. A kernel that has lost its table, or a part of
// it, gets an empty one and then all bans still in force.
//
// The kernel is never asked what it holds: listing 10^6 elements takes minutes. An element
// that is deleted by hand stays deleted until its ban ends.
//
// # What waits
//
// Requests never wait. Add of a ban that is held is a lookup under a read lock. The worker
// takes that lock for writing for at most a batch's worth of bookkeeping, never during I/O.
//
// # Failure
//
// Apply is all or nothing. A batch that fails because of one of its changes is halved until
// that change is alone, so the others get through ([ClassElement], [ClassFull]). Any other
// failure makes the feed pause, for 1 s and then twice as long each time, up to a minute. A
// table that was lost is made again at once, unless that already happened in the last 10 s.
// Meanwhile bans continue here, and [Feed.Holds] returns false, so that their clients are
// answered as if there were no kernel. Going down and coming back are logged, once each.
//
// # Memory
//
// A ban takes 160 bytes at most (TestMemory). There are at most [Config].Max of them, and
// as many again whose removal has not been sent to the kernel.
//
// # Goroutines
//
// [Open] starts one, the only one that calls the writer. [Feed.Close] waits for it.
package feed
