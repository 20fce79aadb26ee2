// Package peers holds the limiters that people would otherwise pick, behind
// the interface of the harness: one file each, configured as its own
// documentation advises; Setup says how. It is a module of its own, so that
// fastlimit does not require what it is compared with.
//
// Most peers name clients by strings. They are given the raw bytes of the
// address, which is shorter and cheaper to make than its text.
package peers

import (
	"net/netip"

	"github.com/fastlimit/fastlimit/bench/inproc"
)

// All returns the peers, with those that keep their buckets in a Redis if its URL
// is not "".
func All(redis string) []inproc.Contender {
	all := []inproc.Contender{GoLimiter(), Throttled(), Ulule(), HTTPRate(), TwoWindows()}
	if redis != "" {
		all = append(all, RedisRate(redis))
	}
	return all
}

// name is the client's name where a peer wants a string.
func name(addr netip.Addr) string {
	if addr.Is4() {
		b := addr.As4()
		return string(b[:])
	}
	b := addr.As16()
	return string(b[:])
}
