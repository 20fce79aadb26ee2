package config

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/server"
)

// resolver returns the address that a listener binds for a host name; ok is false
// if it is not known. A nil resolver knows localhost only.
type resolver func(host string) (addr netip.Addr, ok bool)

// resolveTimeout bounds the wait for a name server that does not answer.
const resolveTimeout = 2 * time.Second

// systemResolver asks the system and chooses as package net does for a listener: the
// first IPv4 address, else the first of any kind.
func systemResolver(host string) (netip.Addr, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(all) == 0 {
		return netip.Addr{}, false // opening the listener will report it
	}
	for _, a := range all {
		if a.Unmap().Is4() {
			return a.Unmap(), true
		}
	}
	return all[0], true
}

// Ports that are taken twice are reported here, with both settings, rather than by the
// listener that comes second with "address already in use". What only the system knows,
// such as ports of other programs, is left to it.

// listenerAt returns the listener that occupies the address, "" if none does.
func listenerAt(all []server.Listener, addr string, names resolver) string {
	for _, l := range all {
		if overlap(l.Address, addr, names) {
			return l.Address
		}
	}
	return ""
}

// overlap reports whether two valid addresses are the same port of one host. Port 0
// is a different port each time.
func overlap(a, b string, names resolver) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	if hostA == hostB {
		return true
	}
	addrA, okA := names.find(hostA)
	addrB, okB := names.find(hostB)
	return okA && okB && (addrA == addrB || covers(addrA, addrB) || covers(addrB, addrA))
}

// covers reports whether all is a wildcard that includes addr. [::] includes IPv4,
// as Go opens it for both; 0.0.0.0 does not include IPv6.
func covers(all, addr netip.Addr) bool {
	return all == netip.IPv6Unspecified() || all == netip.IPv4Unspecified() && addr.Is4()
}

// find returns the address that a listener binds for a host, which may be an address.
func (names resolver) find(host string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap(), true
	}
	switch {
	case host == "":
		return netip.IPv6Unspecified(), true
	case host == "localhost":
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	case names == nil:
		return netip.Addr{}, false
	}
	return names(host)
}
