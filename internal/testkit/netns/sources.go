//go:build linux

package netns

import (
	"context"
	"errors"
	"math/big"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// The prefixes whose addresses are all clients'.
var (
	Clients4 = netip.MustParsePrefix("10.128.0.0/9")
	Clients6 = netip.MustParsePrefix("fd80::/16")
)

// Sources are n addresses of a prefix, the first of each longer prefix of the given
// length: from fd80::/48 by 64 come fd80::1, fd80:0:0:1::1, fd80:0:0:2::1, ….
func Sources(within netip.Prefix, length, n int) []netip.Addr {
	base := within.Masked().Addr()
	first := new(big.Int).SetBytes(base.AsSlice())
	first.Add(first, big.NewInt(1))
	all := make([]netip.Addr, n)
	for i := range all {
		offset := new(big.Int).Lsh(big.NewInt(int64(i)), uint(base.BitLen()-length))
		b := make([]byte, base.BitLen()/8)
		all[i], _ = netip.AddrFromSlice(offset.Add(offset, first).FillBytes(b)) // of one of the two lengths
	}
	return all
}

// Dial connects from an address. The kernel picks a port that is free towards this
// server, so that one address has 28,000 to each.
func Dial(ctx context.Context, from netip.Addr, server string) (net.Conn, error) {
	d := net.Dialer{
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), KeepAlive: -1,
		Control: func(_, _ string, c syscall.RawConn) error {
			var err1, err2 error
			err := c.Control(func(fd uintptr) {
				// Both options are those of IPv6 sockets too. The kernel asks for the first where it
				// would have found the address on no device.
				err1 = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1)
				err2 = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
			})
			return errors.Join(err, err1, err2)
		},
	}
	return d.DialContext(ctx, "tcp", server)
}
