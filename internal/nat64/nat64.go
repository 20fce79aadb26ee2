// Package nat64 tells who is behind a translator between IPv4 and IPv6.
package nat64

import "net/netip"

// prefix is the well-known one of RFC 6052. Its addresses end with an IPv4 address.
var prefix = [12]byte{0x00, 0x64, 0xff, 0x9b}

// Client returns the IPv4 address that a translator has put into an IPv6 one, and all other
// addresses as they are. Otherwise all of IPv4 were one /64, and one client. Addresses that are
// not global have no place in that prefix (RFC 6052 §3.1), so nobody gets one by it.
func Client(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	b := addr.As16()
	if [12]byte(b[:12]) != prefix {
		return addr
	}
	if v4 := netip.AddrFrom4([4]byte(b[12:])); v4.IsGlobalUnicast() && !v4.IsPrivate() {
		return v4
	}
	return addr
}
