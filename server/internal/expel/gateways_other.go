//go:build !linux

package expel

import "net/netip"

// gateways returns none: nothing is passed to a kernel here.
func gateways() ([]netip.Addr, error) { return nil, nil }
