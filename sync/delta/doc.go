// Package delta is what nodes send each other about their top talkers: the
// format, the choice, the merge and what follows from it. It has no network, no
// clock and no goroutine; package gossip brings those. Rates, errors and epochs
// of this node's own tables are package toptalkers'; delta adds what the other
// nodes report. Why it is so, and the proof of the bound, is in
// docs/decisions/0005-nodes.md.
//
// # What is sent
//
// A rule's table of top talkers ([sketch.TopTalkers]) has slots; a slot has a
// generation, which grows with every client that takes it over, and counts the
// units since then. A node sends the same to every peer: slot, generation,
// count. The peer keeps the maximum of (generation, count), lexicographically,
// for each (node, incarnation, rule, slot): its mirror. So packets may be lost,
// doubled, delayed, reordered and replayed, and the mirror is as large as the
// table and no larger, whatever is sent. What a slot has grown by is charged to
// the peer's sketch at once, and never again: a report makes a suspect, it
// never denies.
//
// A tick's packets have a ceiling in bytes. A quarter goes to a sweep over all
// live slots, the next to those that grew most since they were last sent, and what
// is left to the sweep again. Growth is of what was counted; what was shed, denied
// by a table of buckets, goes along, is charged to nobody, and is for Top only. The
// sweep repairs what was lost and informs nodes that joined; with few clients it
// comes around in every tick. A name goes along when its client is new in the
// slot, and with the sweep.
//
// # Whom to believe
//
// A packet is believed only if it parses to its end, only from a member with
// the incarnation that the membership knows, and only about its sender. It
// is not authenticated here: the network is to do that, and a member that lies
// can make suspects of others' clients, never have them denied. Its growth is
// charged up to Config.MaxRate; what exceeds that is recorded, so that it is
// never charged later and is in no rate of Top; what was shed has a limit of its
// own of the same size. The first word of a slot is charged whole, since it was
// counted before anybody listened; there are only so many slots, and a sketch
// takes no cell beyond its limit, so that suspicion ends.
//
// Whoever is on the network can replay packets, late ones of the same life
// included. They cannot lower a count; what a node may not have sent is taken
// from its latest tick only; and only a later tick says that the node is alive. To
// a node that was started anew the replay of an old packet charges counts of then
// as of now, no more of them than slots: it makes suspects.
//
// What is known of a node outlives its membership, since it may be back after a
// partition and its counts with it.
//
// # Format
//
// Numbers are unsigned varints, LEB128 as in package encoding/binary, unless a
// size is given; those are little-endian. Each packet stands alone.
//
//	packet:  "fld", version 2 (1 byte), cluster (8 bytes), incarnation (8),
//	         tick, length of the node's name (1 byte, 1 to 128), name,
//	         sections up to its end
//	section: identity of the rule (8 bytes), slots of the table (1 to 2^22),
//	         units of one client that may not have been sent lately (to 2^53),
//	         units of which chance had one counted among shed lately (1, all,
//	         to 2^24), number of entries (1 or more), entries
//	entry:   slot, generation (1 or more), count (1 to 2^53), shed (to 2^53),
//	         position of the client (8 bytes), length of its name (1 byte, to
//	         40), name
//
// cluster is the first 8 bytes of SHA-256("fastlimit cluster " + name). A packet
// without sections says that the node is there. A section of a rule that the
// receiver does not have is passed over, so that a change of one rule may roll
// through a fleet.
//
// # Cost
//
// A tick reads all slots of all tables, about 30 ns each. A mirror takes 96
// bytes for each slot that was received, in chunks of 32, for up to
// Config.MaxNodes nodes. Neither allocates once all have been met.
package delta
