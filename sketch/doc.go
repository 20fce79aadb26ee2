// Package sketch has the approximate structures that stand in front of the exact buckets: a
// leaky count-min sketch ([Leaky]) and the generations of the first-seen filter ([Blooms]),
// with the keyed digests ([Hasher]) that address them, and the table of top talkers
// ([TopTalkers]). It is arithmetic only: no goroutines, no clock, no I/O. Time is an
// argument, in ticks whose length the caller chooses.
//
// # Leaky count-min sketch
//
// A count-min sketch [Cormode and Muthukrishnan 2005] whose cells are not
// counters to be reset but leaky buckets, as in the multistage filters of
// [Estan and Varghese 2002]. A cell holds one uint64, the virtual time until
// which it is busy (the theoretical arrival time of GCRA):
//
//	charge n:  cell = max(cell, now) + n·T
//	level:     L = max(cell - now, 0)
//	estimate:  S = min over the d rows of L
//
// with T ticks per unit, the inverse of the limit rate r. For a key with
// arrivals A, every one of its cells receives A and possibly the arrivals of
// others, and a leaky level is monotone in arrivals. Hence
//
//	S(t) >= level_A(t)   at all times, whatever the others do,
//
// and the sketch errs towards suspicion only. Noise drains at the limit rate, so there is
// no window and no reset. A cell's load is
//
//	ρ = d·rps / (cells·r)
//
// for rps units per second of traffic in all: noise has a geometric tail while
// ρ < 1 and piles up without bound (to the cap) when ρ > 1. Size for ρ <= 0.5.
//
// # Layout
//
// The cells of a key are d = 3 of the 8 in one block, a cache line: a blocked count-min
// sketch, like a blocked Bloom filter. One bit field of the digest picks the block, another
// one of the 56 subsets of three, so that a shared block, or one shared cell, says little
// about the others. A key that shares a block with a heavy one shares all its cells with it
// in one of 51 cases. Separate rows would make that rarer but cost a cache miss each, on
// the path of every request; here it costs the unlucky key exact checks.
//
// # First-seen filter
//
// A blocked Bloom filter [Putze, Sanders, Singler 2007] with one-word blocks: all bits of a
// key are in one uint64, so that a single atomic Or both tests and marks, and of any number
// of simultaneous callers exactly one learns that it was the first. bits-and-blooms/bloom
// is not safe for concurrent writes and hashes without a key, so the marking is implemented
// here; the library sizes the filter and estimates its population from quiescent copies.
//
// # Top talkers
//
// This is a table of the clients that sent most in an epoch, with the units they sent.
// Nodes exchange it, since levels cannot be shared, and it is ranked for people. It
// consists of sets of four slots; one bit field of the digest picks the set. Each set is a
// summary by Misra and Gries [1982], which has the bounds of Space-Saving [Metwally,
// Agrawal, El Abbadi 2005] with one slot more [Agarwal et al. 2012] and gives half as many
// slots to others:
//
//	a client with a slot:   its weight and its count grow by n
//	without, m + n <= the least weight of the set:   m grows by n
//	without, else:   it gets the slot of least weight w, count n, weight m + n,
//	                 and m becomes w
//
// m is what the set missed. At all times, for the units u of a client in this
// epoch and the N of all clients of its set,
//
//	without a slot   u <= m <= N/5, or N/4 while a slot is sheltered
//	with one         u <= weight  and  u <= growth of count + m
//
// and count is exact: the units since the client took the slot over. Unlike in a hash table
// of counters there are no collisions: IDs have 64 bits. [TopTalkers.Turn] begins an epoch.
// It resets weights and m but not counts, so that a reader with a copy of the slots only
// ever sees them grow.
//
// Denials by a table of buckets are recorded next to the counts ([TopTalkers.Shed]),
// sampled if there are many ([TopTalkers.Drawn]). For each client, [TopTalkers.Missed] and
// [TopTalkers.Dropped] bound what was recorded while it had no slot, and everything counted
// before it lost its slot. Denials do not count as weight: a flood of denied clients must
// not keep others from being counted. But the slot of the client that was denied most in a
// set is sheltered: it is not taken over, and it stays in the next epoch.
//
// A client that takes a slot over with one unit is reported (has a name, a generation) from
// its second hit on; until then it hides m + 1. In a crowd of small clients few come back
// in time, and readers of the table are spared the others.
package sketch
