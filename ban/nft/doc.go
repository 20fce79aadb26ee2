// Package nft bans prefixes in the Linux kernel: a table of nftables drops what they send
// to what is listened on. It is a [feed.Writer], and the only package that links google/nftables.
// Elsewhere than on Linux it compiles, and says that it cannot.
//
//	table inet fastlimit {                                     # nft list table inet fastlimit
//		flags owner
//		set ports { type inet_service; elements = { 443, 8080 } }
//		set v4_32 { type ipv4_addr; size 131073; flags timeout; elements = { 192.0.2.7 timeout 30s, 255.255.255.255 } }
//		set v6_64 { type ipv6_addr; size 131073; flags timeout; … }
//		chain prerouting { type filter hook prerouting priority raw; tcp dport @ports goto banned }
//		chain input { type filter hook input priority raw; tcp dport @ports goto banned }
//		chain banned {
//			ip saddr @v4_32 goto drops
//			ip6 saddr & ffff:ffff:ffff:ffff:: == @v6_64 goto drops
//		}
//		chain drops {
//			tcp dport 443 fib daddr type local counter drop
//			tcp dport 8080 ip daddr 192.0.2.1 counter drop
//		}
//	}
//
// What is sent to others is not dropped: to another program with the same port at another
// address, or to a host for which this one forwards. Only packets of the banned are asked about
// that. Input is for those that another rule redirects to a port of ours, which have that port only there.
//
// Priority raw is before connection tracking, so a dropped packet leaves no entry
// there: it costs 0.33 µs. Each prefix length is a hash set of its own, made when it is
// first used, and a look-up of the masked source. Sets of intervals would need one look-up
// for all, but rebuild themselves at each change.
//
// # Whose table it is
//
// It is owned by our netlink socket (NFT_TABLE_F_OWNER, Linux 5.12): no other process
// can change it, "nft flush ruleset" leaves it out, and the kernel removes it when the
// socket closes, which it does however the process ends. A second process that wants a
// table of this name gets an error.
//
// An older kernel refuses the flag. Then the table replaces one that was left behind, in
// one transaction, and is deleted by Close, but stays after SIGKILL until the next start, its
// elements until their ends. An abstract Unix socket keeps a second process of ours from
// replacing it.
//
// # What was lost
//
// Others can change such a table, or make one in its place. Counters asks, without
// listing elements, for the table's handle and flags, for the rules, which it needs for
// their counters, and for one element of each set, a canary: a key that no masked source
// has, which is gone after a flush. An element that was deleted by hand is not missed.
//
// # Elements
//
// A batch is one transaction. It asks for an error where an element that it adds is
// there, or one that it removes is not, and if it gets one, begins again in a way that
// takes two or three steps for each element and works in any case (Apply). The kernel counts
// lives in ticks of up to 10 ms, and rounds them down. So elements end up to that much
// early, and never live less than 20 ms: 0 ticks are forever.
//
// # Netlink
//
// The kernel answers while it is told, so answers are read without waiting. One
// acknowledgement of 36 bytes is asked for per batch, so they overflow no buffer. A
// message that is too long for the socket's buffer is halved by the feed.
package nft
