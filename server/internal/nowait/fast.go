//go:build linux && (amd64 || arm64)

package nowait

import (
	"syscall"
	"unsafe"
)

// Fast says that there are Receive and Send here.
const Fast = true

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
func Send(fd uintptr, p []byte) (n int, errno syscall.Errno) {
	took, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), syscall.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(took), 0
}
