// Package ban remembers which clients of a rule were denied recently, and which of them are
// banned for that, in a table of fixed size. It reads no clock: times are arguments, on the
// time line of a limiter. It knows neither rules nor a kernel.
//
// # Who is banned
//
// A [Policy] bans a client for For when it has been denied After times within Within. Each
// further ban lasts twice as long as the one before, up to Max. The length that counts is
// halved when ten such lengths have passed since the ban's end without another, again when
// ten of the halved lengths have passed, and so on. The client is forgotten when it falls
// below For. Until then an eighth of After is enough.
//
// Denials are counted in slots of Within/16: those in the slot of the latest denial and in
// the 15 slots before it. They lie within Within of each other, so no client is banned for
// fewer than After. A client with After denials in consecutive slots, which any 15/16 of
// Within lies in, is banned. A denial is dated by the request's own reading of the clock,
// however late it arrives.
//
// # The table
//
// A client has a record of two halves. One is a separate cache line with what requests read
// and write without a lock: the whole digest, the count of the current slots, and the end
// of the ban. The other is read when a slot is rotated or a ban begins: the counts of the
// previous slots, and the name.
//
// A record is in one of two sets of eight, in whichever had more room. Each set has a word
// of eight marks, one byte of the digest each. Two words therefore show for nearly all
// clients without a record that they have none, and where the record of others is. While no
// client is banned, one load shows that: [Table.Quiet].
//
// The count of a record shares a word with a version of the record, which every other
// change raises, under the lock of the set. A denial is a compare-and-swap on that word, so
// it counts for the client that the record was read to be of, and for no other that has
// taken the place since (TestNobodyIsBannedForOthers). A reader that finds another version
// afterwards reads again.
//
// # When it is full
//
// Only time or [Table.Lift] ends a ban. At most seven clients of a set may be banned, so
// that others in it can be counted: one more ban is refused, and counted. A ban from
// elsewhere takes a place in whichever set has room for it. Another new client replaces an
// unbanned one: of four that are drawn, the one with the fewest denials n, with a chance of
// 1/(n+1). A client that is remembered for a ban counts as if it had been
// denied After times more. So a flood of clients that are denied once each, however many,
// replaces its own kind (TestFloodOfSuspects). A client that is forgotten is merely not
// banned yet: it is denied as before.
//
// A client that can make up its identity, such as an unchecked header, can fill the table
// at the price of After denials for each: then others are not banned until those bans end.
// Ban by identities that cannot be made up.
package ban
