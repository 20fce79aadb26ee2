// Package ban remembers which clients of a rule were denied lately, and which of them are
// banned for that, in a table of fixed size. It reads no clock: times are arguments, on
// the time line of a limiter. It knows neither rules nor a kernel.
//
// # Who is banned
//
// A [Policy] bans a client for For when it has been denied After times within Within. Each
// further ban lasts twice as long as the one before, up to Max. Its length is halved when ten
// such lengths have passed since its end without another, again when ten of those have, and the
// client is forgotten when it falls below For. Until then an eighth of After is enough.
//
// Denials are counted in slots of Within/16: those of the slot of the latest one and of the 15
// before it. They lie within Within of each other, so nobody is banned for fewer than After;
// and whoever is denied After times in a row of slots, which any 15/16 of Within is part of, is
// banned. A denial is dated by the request's own reading of the clock, however late it arrives.
//
// # The table
//
// A client is a record of two halves. One is a line of its own with what requests read and
// write without a lock: the whole digest, the count of the current slots, and the end of the
// ban. The other is read where a slot turns or a ban begins: the counts of the slots before,
// and the name.
//
// A record is in one of two sets of eight, in whichever had more room. Each set has a word of
// eight marks, a byte of the digest each, so that a look at two words says of nearly all
// others that they have no record here, and where to look for who has one. While nobody is
// banned, one load says so: [Table.Quiet].
//
// The count of a record shares a word with a version of the record, which each other change
// raises, under the lock of the set. A denial is a compare-and-swap on that word, so it counts
// for the client that it was read to be of, and for no other that has taken the place since
// (TestNobodyIsBannedForOthers). A reader that finds another version afterwards looks again.
//
// # When it is full
//
// Nothing but time or [Table.Lift] ends a ban. At most seven of a set may be banned, so that
// the others of it can be counted: what would be one more is refused and counted. Among those
// who are not banned a newcomer replaces the one with the fewest denials of four that are drawn,
// with a chance of 1/(n+1) if that has n; who is remembered for a ban counts as if it had been
// denied After times more. So a flood of clients that are denied once each, however many,
// replaces its own kind (TestFloodOfSuspects). To be forgotten costs a client nothing but that
// it is not banned yet: it is denied as before.
//
// A client that can make up its identity, such as an unchecked header, can fill the table at
// the price of After denials for each: then others are not banned until those bans end. Ban by
// what cannot be made up.
package ban
