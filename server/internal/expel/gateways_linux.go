package expel

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// gateways returns the next hops of all routes, of all tables and both families.
func gateways() ([]netip.Addr, error) {
	dump, err := syscall.NetlinkRIB(unix.RTM_GETROUTE, unix.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseNetlinkMessage(dump)
	if err != nil {
		return nil, err
	}
	var all []netip.Addr
	for i := range messages {
		m := &messages[i]
		if m.Header.Type != unix.RTM_NEWROUTE || len(m.Data) < unix.SizeofRtMsg {
			continue
		}
		all = append(all, nextHops(m.Data[unix.SizeofRtMsg:])...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all), nil
}

// nextHops returns the gateways in the attributes of a route.
func nextHops(attributes []byte) (all []netip.Addr) {
	for typ, value := range attributesOf(attributes) {
		switch typ {
		case unix.RTA_GATEWAY:
			all = appendAddr(all, value)
		case unix.RTA_VIA: // of another family, which comes first
			if len(value) > 2 {
				all = appendAddr(all, value[2:])
			}
		case unix.RTA_MULTIPATH:
			for len(value) >= unix.SizeofRtNexthop {
				n := int(binary.NativeEndian.Uint16(value))
				if n < unix.SizeofRtNexthop || n > len(value) {
					break
				}
				all = append(all, nextHops(value[unix.SizeofRtNexthop:n])...)
				value = value[min(align(n), len(value)):]
			}
		}
	}
	return all
}

func appendAddr(all []netip.Addr, b []byte) []netip.Addr {
	if a, ok := netip.AddrFromSlice(b); ok {
		return append(all, a.Unmap())
	}
	return all
}

// attributesOf yields attributes, up to the first that is cut off.
func attributesOf(b []byte) func(yield func(typ uint16, value []byte) bool) {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			n, typ := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
			if n < unix.SizeofRtAttr || n > len(b) || !yield(typ, b[unix.SizeofRtAttr:n]) {
				return
			}
			b = b[min(align(n), len(b)):]
		}
	}
}

// align rounds up to the beginning of the next attribute.
func align(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }
