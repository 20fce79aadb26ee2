// Package gossip is the loop that exchanges the counts of package delta with
// the other nodes of a cluster. Membership, failure detection and encryption
// are hashicorp/memberlist's; this package carries packets, and decides
// nothing.
//
//	delta.Tick ─► packets ─► memberlist ─► UDP ─► gate ─► queue ─► delta.Receive
//	              the same    AES-256-GCM         drops   └ membership ─► memberlist
//	              to every    AAD: cluster name   what is
//	              peer                            not authentic
//
// The gate decrypts each packet and each stream to check it. Packets of counts go
// from there to delta; what is about members goes to memberlist, which decrypts it
// once more. The gate takes 0.9 µs for a packet of 1400 bytes, 6 ns where the
// cluster's name is not in front (BenchmarkGate, AMD EPYC, 2026-11).
//
// What is dropped is counted where it is dropped: by the gate, which also decodes
// the messages as memberlist would, by the queue of counts, by the delegates that
// let nodes in, and by delta. What memberlist itself logs is at level debug; nothing
// is read from its text.
//
// # Who is believed
//
// Keys are derived from the cluster's secret by HKDF-SHA256, salted with the
// cluster's name, one for memberlist and one that keys the digests of the
// limiter. Whoever has the secret is believed: about the counts of any name it
// uses, and about who is a member, up to MaxNodes. memberlist is not Byzantine
// fault tolerant and keeps no replay cache; delta merges by maximum, so that a
// replay changes nothing. A count too high makes suspects, who are checked
// exactly. SECURITY.md says what strangers and members can do.
//
// A node's metadata is the version of what it speaks and its incarnation, which
// is its start and a random number. A node of another version is not let in.
// Counts of a node are accepted while it is a member with the incarnation that
// they name. A node that learns of another one of its name asks it over a
// stream, and yields to it if its incarnation is less: it says and hears
// nothing, for as long as it gets answers.
//
// # Goroutines and state
//
//   - tick sends what delta.Tick returns, once each interval. It is the only one
//     that calls Tick.
//   - join asks seeds and lost peers that are not members, with backoff and
//     jitter, joinAtOnce at a time. It is a goroutine of its own, since a dial
//     takes as long as it takes, and counts must not wait for it.
//   - twins asks those who are said to have this node's name, while there are
//     any.
//   - receive and accept read the sockets for memberlist, in place of its own
//     transport, which takes 64 KiB of memory for each packet and reads 20 MiB
//     from anybody before it knows the key (v0.7.0). Each stream has a goroutine
//     until its message has been read.
//   - mergeQueued merges packets of counts, so that a slow merge does not hold up
//     receive.
//   - memberlist has its own, which call the methods of [members].
//
// The peers are guarded by members.mu; memberlist's node lock is held around
// it, so nothing under members.mu calls memberlist. delta.State has a lock of
// its own, taken last. Counters are atomics. [Cluster.Close] ends all of them.
//
// # Bounds
//
// A packet is at most packetBytes on the wire and anything larger is dropped
// unread. Streams carry the list of members only: at most maxStreams at once,
// each of bounded length and time. So what a stranger can take is 2 KiB for a
// packet and maxStreams times the list of members; what members can take on top is
// maxQueue packets. What is sent by UDP has a
// ceiling over all peers, Config.allowance; names that memberlist keeps have one
// too, namesPerNode for each of MaxNodes.
package gossip
