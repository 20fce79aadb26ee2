// Package nft bans prefixes in the Linux kernel, by a table of nftables that drops what they
// send. It is a [feed.Writer].
package nft
