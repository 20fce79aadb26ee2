// Package nowait reads and writes sockets without waiting and, where the calls are short,
// without telling Go's scheduler: [Receive] and [Send] exist on Linux, amd64 and arm64
// ([Fast]). Whoever has to wait does that by [syscall.RawConn], whose Read calls back
// until the callback is content: Go's poller is made ready before the first call, so no
// byte that arrives between a look and the wait is missed. The poller is edge-triggered,
// though: what has arrived before the first call is not told again.
package nowait

import (
	"net"
	"syscall"
)

// Raw is the socket of a TCP or Unix connection; nil if something lies between, such as
// TLS.
func Raw(nc net.Conn) syscall.RawConn {
	var raw syscall.RawConn
	var err error
	switch c := nc.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	}
	if err != nil {
		return nil
	}
	return raw
}
