// Package nowait reads and writes sockets without waiting and, where the calls are short,
// without telling Go's scheduler: [Accept], [Receive], [Send] and [Close] exist on Linux,
// amd64 and arm64 ([Fast]). Whoever has to wait does that by [syscall.RawConn], whose Read
// calls back until the callback is content: Go's poller is made ready before the first
// call, so no byte that arrives between a look and the wait is missed. The poller is
// edge-triggered, though: what has arrived before the first call is not told again.
package nowait

import (
	"net"
	"syscall"
)

// Raw is the socket of a connection; nil if something lies between, such as TLS.
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
