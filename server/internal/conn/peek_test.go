//go:build !windows

package conn

import (
	"net"
	"syscall"
)

// peek is the number of bytes that have arrived, up to the length of p.
func peek(nc net.Conn, p []byte) (n int) {
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return -1
	}
	_ = raw.Control(func(fd uintptr) { n, _, _ = syscall.Recvfrom(int(fd), p, syscall.MSG_PEEK|syscall.MSG_DONTWAIT) })
	return n
}
