package config

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/server"
)

// resolver returns the address that a listener takes for a name; ok is false
// where it is not known. nil knows no names but localhost.
type resolver func(host string) (addr netip.Addr, ok bool)

// resolveTimeout bounds a look at a name server that does not answer.
const resolveTimeout = 2 * time.Second

// systemResolver asks the system, as the net package does for a listener: the
// first IPv4 address, else the first.
func systemResolver(host string) (netip.Addr, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(all) == 0 {
		return netip.Addr{}, false // the listener will say so
	}
	for _, a := range all {
		if a.Unmap().Is4() {
			return a.Unmap(), true
		}
	}
	return all[0], true
}

// taken returns the listener that has the address already, "" if none.
func taken(all []server.Listener, addr string, names resolver) string {
	for _, l := range all {
		if overlap(l.Address, addr, names) {
			return l.Address
		}
	}
	return ""
}

// overlap reports whether two valid addresses name the same port of one host.
// Port 0 is another port each time.
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

// covers tells that all is a wildcard which another address falls under: [::]
// takes IPv4 too, 0.0.0.0 does not take IPv6.
func covers(all, addr netip.Addr) bool {
	return all == netip.IPv6Unspecified() || all == netip.IPv4Unspecified() && addr.Is4()
}

// find is the address that a listener at the host takes.
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
