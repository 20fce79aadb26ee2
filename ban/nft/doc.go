// Package nft bans prefixes in the Linux kernel: a table of nftables drops the packets that
// they send to the server's ports. It is a [feed.Writer], and the only package that links
// google/nftables. On other systems it compiles, and returns an error that it is not
// supported.
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
// Packets to others are not dropped: to another program with the same port at another
// address, or to a host for which this one forwards. Only packets of banned clients are
// checked for that. The input chain is for packets that another rule redirects to one of
// our ports, which have that port only there.
//
// Priority raw is before connection tracking, so a dropped packet leaves no entry there: it
// costs 0.33 µs. Each prefix length has a separate hash set, made when it is first used,
// and a lookup of the masked source. Sets of intervals would need one lookup for all
// lengths, but they are rebuilt at each change.
//
// # Ownership of the table
//
// It is owned by our netlink socket (NFT_TABLE_F_OWNER, Linux 5.12): no other process can
// change it, "nft flush ruleset" leaves it out, and the kernel removes it when the socket
// closes, however the process ends. A second process that wants a table of this name gets
// an error.
//
// An older kernel refuses the flag. Then the table replaces one that was left behind, in
// one transaction, and Close deletes it. After SIGKILL it stays until the next start, and
// its elements until their ends. An abstract Unix socket keeps a second fastlimit process
// from replacing it.
//
// # How losses are detected
//
// Others can change such a table, or make one in its place. Without listing elements,
// Counters asks for the table's handle and flags, for the rules, which it needs for their
// counters, and for one element of each set, a canary: a key that no masked source has,
// which is gone after a flush. It does not notice an element that was deleted by hand.
//
// # Elements
//
// A batch is one transaction. It asks for an error if an element that it adds exists, or
// one that it removes does not. If it gets one, it starts over in a way that takes two or
// three steps for each element and works in any case (Apply). The kernel counts lives in
// ticks of up to 10 ms, and rounds them down. So elements end up to that much early, and
// never live less than 20 ms: 0 ticks are forever.
//
// # Netlink
//
// The kernel answers during the call that sends, so answers are read without waiting. One
// acknowledgement of 36 bytes is requested per batch, so they overflow no buffer. A message
// that is too long for the socket's buffer is halved by the feed.
package nft
