// Package nowait reads and writes sockets without waiting and, where the calls are short, without Go's
// scheduler: [Accept], [Receive], [Send] and [Close] exist on Linux, amd64 and arm64 ([Fast]). To wait, use
// [syscall.RawConn], whose Read calls back until the callback is done: Go's poller is made ready before the
// first call, so no byte that arrives between a read and the wait is missed. The poller is edge-triggered,
// though: what arrived before the first call is not reported again.
package nowait

import (
	"net"
	"syscall"
)

// Raw returns the socket of a connection, or nil if something is in between, such as TLS.
func Raw(nc net.Conn) syscall.RawConn {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}
