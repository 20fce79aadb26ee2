// Package gossip is the loop that exchanges the counts of package delta with
// the other nodes of a cluster. Membership, failure detection and encryption
// are hashicorp/memberlist's; this package carries packets, and decides
// nothing.
//
//	delta.Tick ─► packets ─► memberlist ─► UDP ─► memberlist ─► delta.Receive
//	              the same    AES-256-GCM          drops what is not
//	              to every    AAD: cluster name    encrypted so
//	              peer
//
// # Who is believed
//
// Keys are derived from the cluster's secret by HKDF-SHA256, salted with the
// cluster's name, one for memberlist and one that keys the digests of the
// limiter. Whoever has the secret is believed: about the counts of any name it
// uses, and about who is a member. memberlist is not Byzantine fault tolerant
// and keeps no replay cache; delta merges by maximum, so that a replay changes
// nothing. A count too high makes suspects, who are checked exactly.
//
// A node's metadata is the version of what it speaks and a random incarnation,
// drawn anew at each start. A node of another version is not let in. Counts of
// a node are accepted while it is a member with the incarnation that they name.
//
// # Goroutines and state
//
//   - tick sends what delta.Tick returns, once each interval. It is the only one
//     that calls Tick.
//   - join asks seeds and lost peers that are not members, with backoff and
//     jitter. It is a goroutine of its own, since a dial takes as long as it
//     takes, and counts must not wait for it.
//   - receive and accept read the sockets for memberlist, in place of its own
//     transport, which takes 64 KiB of memory for each packet and reads 20 MiB
//     from anybody before it knows the key (v0.7.0).
//   - memberlist has its own, which call the methods of [members] and Write of
//     the log filter.
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
// packet and maxStreams times the list of members.
package gossip
