package expel

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Machine has the addresses that a machine must not drop: its own, and its gateways'.
type Machine struct {
	Loopback []netip.Prefix
	Own      []netip.Addr
	Gateways []netip.Addr // of all routes
}

// Has reports whether a prefix has an address of the machine, or of one of its gateways.
func (m *Machine) Has(p netip.Prefix) Reason {
	switch {
	case slices.ContainsFunc(m.Own, p.Contains):
		return Own
	case slices.ContainsFunc(m.Gateways, p.Contains):
		return Gateway
	}
	return NotRefused
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// ThisMachine reads the addresses and gateways that this machine has now.
func ThisMachine() (Machine, error) {
	m := Machine{Loopback: loopback}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return m, fmt.Errorf("fastlimit/server: the addresses of this machine: %w", err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				m.Own = append(m.Own, addr.Unmap())
			}
		}
	}
	if m.Gateways, err = gateways(); err != nil {
		return m, fmt.Errorf("fastlimit/server: the gateways of this machine: %w", err)
	}
	return m, nil
}
