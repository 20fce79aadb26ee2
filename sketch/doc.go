// Package sketch holds the two approximate structures that stand in front of
// the exact buckets: a leaky count-min sketch ([Leaky]) and one generation of
// the first-seen filter ([Bloom]), with the keyed digests ([Hasher]) that
// address them. It is arithmetic only: no goroutines, no clock, no I/O. Time
// is an argument, in ticks whose length the caller chooses.
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
// and the sketch errs towards suspicion only. Noise drains at the limit rate,
// so there is no window, no reset and no seam. With ρ = rps/(w·r) the load of
// a row of w cells, noise has a geometric tail while ρ < 1 and piles up
// without bound (to the cap) when ρ > 1: size for ρ <= 0.5.
//
// # Layout
//
// The d = 4 cells of a key live in one 128-byte block: 4 rows of 4 slots, two
// cache lines that the adjacent-line prefetcher fetches together. One bit
// field of the digest picks the block, four others the slots, so that a
// collision in one row says nothing about the next, given the block.
//
// # First-seen filter
//
// A blocked Bloom filter [Putze, Sanders, Singler 2007] with one-word blocks:
// all bits of a key lie in one uint64, so that a single atomic Or both asks
// and marks, and of any number of simultaneous callers exactly one learns
// that it was the first. The words are those of a bits-and-blooms
// BloomFilter, which sizes the filter and estimates its population.
package sketch
