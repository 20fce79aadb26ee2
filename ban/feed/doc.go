// Package feed keeps a kernel told of the bans it is to enforce. A [Writer] knows one
// kind of kernel: package nft is the one for nftables. This package has the rest: which
// prefixes are banned until when, the queue, batches, back-off and counters. It does no I/O.
//
//	Add, Remove ─► bans ─► queue ─► worker ─► Writer.Apply: at most 1,000 changes at once
//	Holds ◄────────┘ ▲                 └ once a second: Writer.Counters, which finds losses too
//	                 └ expire by themselves, here and in the kernel
//
// # Truth
//
// The bans of a [Feed] are the truth, and what the kernel holds is a copy. Each ban has
// one place in the queue at most, however often it changes meanwhile, so what is sent is
// the latest that was asked for. After the queue has emptied, the kernel holds the bans
// that run, each until its own end, and no others, up to 20 ms. A kernel that has lost its
// table, or a part of it, gets an empty one and then all bans that still run.
//
// Nobody asks the kernel what it holds: listing 10^6 elements takes minutes. An
// element that somebody deletes by hand stays deleted until its ban ends.
//
// # Who waits
//
// Requests never do. Add of a ban that is held is a look-up under a read lock, which the
// worker takes for writing for at most a batch's worth of bookkeeping, never during I/O.
//
// # Failure
//
// Apply is all or nothing. A batch that fails because of one of its changes is halved
// until that change is alone, so the others get through ([ClassElement], [ClassFull]).
// Any other failure makes the feed pause, for 1 s and then twice as long each time, up to
// a minute; a table that was lost is made anew at once, unless that was the case in the last
// 10 s too. Meanwhile bans go on here, and [Feed.Holds] says false, so that their
// clients are answered as if there were no kernel. Going down and coming back
// are logged, once each.
//
// # Memory
//
// A ban takes 160 bytes at most (TestMemory). There are at most [Config].Max of them, and
// as many again whose removal the kernel has not been told.
//
// # Goroutines
//
// [Open] starts one, which alone calls the writer. [Feed.Close] waits for it.
package feed
