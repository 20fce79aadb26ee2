// Package gossip is the loop that exchanges the counts and bans of package delta with
// the other nodes of a cluster. Membership, failure detection and encryption
// are hashicorp/memberlist's; this package carries packets and takes no part in
// decisions about requests.
//
//	delta.Tick ─► packets ─► memberlist ─► UDP ─► gate ─► queue ─► delta.Receive
//	              the same    AES-256-GCM         drops   └ membership ─► memberlist
//	              to every    AAD: cluster name   what is
//	              peer                            not authentic
//
// The gate decrypts each packet and each stream to check it. Packets of counts go
// straight to delta; membership traffic goes to memberlist, which decrypts it a
// second time. The gate takes 0.9 µs for a packet of 1400 bytes, and 6 ns to reject
// one without the cluster's name in front (BenchmarkGate, AMD EPYC, 2026-11).
//
// Programs ask each other by [Nodes.Ask], each question over a stream of its own.
//
// Everything dropped is counted where it is dropped: by the gate, which also decodes
// messages as memberlist would; by the queue of counts; by the delegates that admit
// nodes; and by delta. memberlist's own log is passed on at level debug, and its
// text is not parsed.
//
// # Who is believed
//
// Keys are derived from the cluster's secret by HKDF-SHA256, salted with the
// cluster's name: one for memberlist, and one for the digests of the limiter. A
// node with the secret is believed about the counts of any name it uses, and about
// membership, up to MaxNodes. memberlist is not Byzantine fault tolerant and keeps
// no replay cache; delta merges by maximum, so a replay changes nothing. A count
// that is too high makes suspects, which are then checked exactly. Bans deny by
// themselves, so they are believed only from the address of the node that they name.
// SECURITY.md says what strangers and members can do.
//
// A node's metadata is its protocol version and its incarnation, made of its start
// time and a random number. A node with another version is not admitted. A node's
// counts are accepted while it is a member with the incarnation that they name. A
// node that learns of another one with its name asks it over a stream, and yields if
// the other's incarnation is lower: it then sends and receives nothing for as long
// as the other answers.
//
// # Goroutines and state
//
//   - tick sends the packets of delta.Tick once per interval. It is the only caller
//     of Tick.
//   - join asks seeds and lost peers that are not members, maxJoins at a time, with
//     backoff and jitter. It has its own goroutine since dials are slow and counts
//     must not wait for them.
//   - twins asks nodes that are said to have this node's name, if there are any.
//   - receive and accept read the sockets. They replace memberlist's own transport,
//     which allocates 64 KiB per packet and reads 20 MiB from a stranger before it
//     checks the key (v0.7.0). Each stream has a goroutine until its message has been
//     read.
//   - mergeQueued merges packets of counts, so that a slow merge does not hold up
//     receive.
//   - memberlist has its own, which call the methods of [members].
//
// The peers are guarded by members.mu. memberlist may hold its node lock around it,
// so nothing under members.mu calls memberlist. delta.State has its own lock, taken
// last. Counters are atomics. [Nodes.Close] ends all goroutines.
//
// # Bounds
//
// A packet has at most packetBytes on the wire; one beyond maxPacket is dropped
// without being decrypted. Streams carry lists of members and questions: at most maxStreams
// at once, each of bounded length and time. A stranger can therefore make this node
// use 2 KiB for packets and maxStreams lists of members; members can fill the queue
// of maxQueue packets on top. Outgoing UDP traffic has a ceiling over all peers,
// Config.allowance, and so have the names that memberlist keeps: namesPerNode for
// each of MaxNodes.
package gossip
