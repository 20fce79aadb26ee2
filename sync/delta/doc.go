// Package delta implements the protocol by which nodes exchange their top talkers and the
// clients that they have banned: the packet format, the choice of what to send, the merge,
// and what a merge charges. It has no network, no clock and no goroutine; package gossip
// supplies those. Rates, error bounds and epochs of the local tables are in package
// toptalkers; delta adds the reports of other nodes. The design decisions and the proof of
// the bound are in docs/decisions/0005-nodes.md.
//
// # What is sent
//
// A rule's table of top talkers ([sketch.TopTalkers]) has slots. A slot has a
// generation, which grows whenever another client takes the slot, and the units
// counted since then. A node sends the same entries to every peer: slot,
// generation, count. The peer keeps the lexicographic maximum of (generation,
// count) for each (node, incarnation, rule, slot): its mirror. Packets may
// therefore be lost, duplicated, delayed, reordered and replayed, and no input makes the
// mirror larger than the table. Growth of a slot is charged to the peer's sketch once, on
// arrival. A report turns clients into suspects; it never denies them.
//
// The packets of a tick have a ceiling in bytes. A quarter goes to a sweep over
// all live slots, then the slots that grew most since they were last sent go out,
// and the sweep continues with what is left. Growth is measured in counted units;
// shed units (denied by a bucket table) travel along, are never charged, and only
// serve Top. The sweep repairs losses and informs nodes that have just joined;
// with few clients it covers every slot on each tick. A client's name is sent when
// the client is new in its slot, and by the sweep.
//
// # Which packets are believed
//
// A packet is believed only if it parses to its end, comes from a member with
// the incarnation known to the membership, and is about its sender. Packets are
// not authenticated here; that is the network's job. A lying member can turn
// other nodes' clients into suspects, but cannot have them denied. Its growth is
// charged up to believedRate, 10^7 units/s. Growth beyond that is recorded, so that
// it is never charged later, and is left out of Top's rates; shed units have a
// separate limit of the same size. The first report of a slot is charged in full, since it
// was counted before any peer listened: the number of slots bounds these reports, and a
// sketch cell does not grow beyond its limit.
//
// Anybody on the network can replay packets, including late ones of the same
// incarnation. A replay cannot lower a count; the units that a node may not have
// sent are taken from its latest tick only; and only a later tick proves that the
// node is alive. A restarted receiver charges the counts of a replayed old packet
// as if they were new, once per slot, which makes suspects and nothing else.
//
// A mirror outlives its node's membership, since the node may come back with the
// same counts after a partition.
//
// # Bans
//
// A node sends the bans that it has begun, and never those that others have reported. A ban
// has a serial number, greater than those of all bans before it in this run of the node.
// When an operator ends the ban, the same serial number is sent as ended, until the ban
// would have been over. A peer keeps the maximum of (serial, ended) for each (node,
// incarnation, rule, client) until then, and applies each ban once: see [claims]. The time
// left of a ban is as of when its packet was sent, by the sender's clock; how late a packet
// is follows from the fastest one: see [clockOf]. New bans are sent at once, again a few
// times, and then every repeatEvery, in a quarter of a tick's bytes.
// docs/decisions/0031-bans-of-nodes.md has the reasons.
//
// With Config.AcceptBans a lying member can have any client denied, for as long as the rule
// bans at all. Without it bans are only counted.
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
//	         sampling grain of shed units lately: each was counted with
//	         probability 1/grain (1 to 2^24; 1: all were counted),
//	         number of entries (1 or more), entries
//	entry:   slot, generation (1 or more), count (1 to 2^53), shed (to 2^53),
//	         position of the client (8 bytes), length of its name (1 byte, to
//	         40), name
//
// Packets of bans have the same head behind another magic:
//
//	packet: "flb", version 1 (1 byte), cluster (8 bytes), incarnation (8), tick,
//	        length of the node's name (1 byte, 1 to 128), name, when it was sent in ms of
//	        this incarnation (to 2^40), bans up to its end
//	ban:    identity of the rule (8 bytes), serial (1 or more), ms that are left
//	        (to 2^40), how often the client was banned (to 2^16; 0: the ban has been
//	        ended), digest of the client (8 + 8 bytes), length of its name (1
//	        byte, to 40), name
//
// cluster is the first 8 bytes of SHA-256("fastlimit cluster " + name). A packet
// without sections only says that the node is alive. A receiver skips sections of
// rules that it does not have, so that a rule change can roll through a fleet.
//
// # Cost
//
// A tick reads every slot of every table (BenchmarkTick). A mirror takes 112 bytes for each
// slot received, in chunks of 32 slots, for up to Config.MaxNodes nodes. Neither allocates
// once every slot has been seen. A tick visits every ban that it sends, up to maxBans, and
// a claim takes claimBytes.
package delta
