package workload

import (
	"encoding/binary"
	"net/netip"
)

// V4 is the address of a client. Different clients have different ones, spread
// over the whole space: the multiplier is odd, so the product is a permutation.
func V4(client uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], client*2654435761)
	return netip.AddrFrom4(b)
}

// v6 is one of the addresses within the /64 of a client.
func v6(client uint32, low uint64) netip.Addr {
	b := [16]byte{0x20, 0x01, 0x0d, 0xb8} // documentation prefix, RFC 3849
	binary.BigEndian.PutUint32(b[4:], client*2654435761)
	binary.BigEndian.PutUint64(b[8:], low)
	return netip.AddrFrom16(b)
}
