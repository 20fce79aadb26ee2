//go:build !linux

package expel

import "net/netip"

// gateways has none: nothing is given to a kernel here.
func gateways() ([]netip.Addr, error) { return nil, nil }
