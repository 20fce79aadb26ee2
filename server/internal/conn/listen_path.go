package conn

import "strings"

// unixScheme begins an address that is a path.
const unixScheme = "unix:"

// UnixPath returns the path of an address, if it is that of a Unix socket.
func UnixPath(address string) (path string, ok bool) { return strings.CutPrefix(address, unixScheme) }

// unixAddr is the path of a listener. Its text is what operators write.
type unixAddr string

// Network implements net.Addr.
func (unixAddr) Network() string { return "unix" }

// String implements net.Addr.
func (a unixAddr) String() string { return unixScheme + string(a) }
