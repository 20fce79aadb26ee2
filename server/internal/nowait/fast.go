//go:build linux && (amd64 || arm64)

package nowait

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Fast says that Accept, Receive, Send, SendLast and Close exist here.
const Fast = true

// Accept takes the next connection from the queue of a listening socket that does not block.
// Its socket does not block either. peer is invalid for a Unix socket.
func Accept(listening uintptr) (fd uintptr, peer netip.AddrPort, errno syscall.Errno) {
	var sa unix.RawSockaddrAny
	size := uint32(unsafe.Sizeof(sa))
	fd, _, errno = syscall.RawSyscall6(syscall.SYS_ACCEPT4, listening, uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)),
		syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return 0, peer, errno
	}
	switch sa.Addr.Family {
	case unix.AF_INET:
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(&sa))
		peer = netip.AddrPortFrom(netip.AddrFrom4(in.Addr), bigEndian(in.Port))
	case unix.AF_INET6:
		in := (*unix.RawSockaddrInet6)(unsafe.Pointer(&sa))
		peer = netip.AddrPortFrom(netip.AddrFrom16(in.Addr).Unmap(), bigEndian(in.Port))
	}
	return fd, peer, 0
}

// bigEndian converts a port in network byte order. Both systems with Fast are little-endian.
func bigEndian(port uint16) uint16 { return port<<8 | port>>8 }

// Receive is recvfrom, for sockets that do not block. p must not be empty; at the end of
// the stream n is 0 and so is the error.
func Receive(fd uintptr, p []byte, flags uintptr) (n int, errno syscall.Errno) {
	got, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(got), 0
}

// Send is sendto without SIGPIPE, for sockets that do not block. p must not be empty; n is
// how much of it the socket took.
func Send(fd uintptr, p []byte) (n int, errno syscall.Errno) { return send(fd, p, 0) }

// SendLast is Send for bytes right before the end of the connection: they stay in the socket, so that [Close]
// sends both in one packet.
func SendLast(fd uintptr, p []byte) (n int, errno syscall.Errno) { return send(fd, p, unix.MSG_MORE) }

func send(fd uintptr, p []byte, flags uintptr) (n int, errno syscall.Errno) {
	took, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), syscall.MSG_NOSIGNAL|flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(took), 0
}

// Close closes a socket that nobody else uses.
func Close(fd uintptr) { _, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0) }
