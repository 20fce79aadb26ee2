//go:build !linux || (!amd64 && !arm64)

package nowait

import "syscall"

// Fast says that Receive and Send must not be called here; Accept, SendLast and Close do not exist.
const Fast = false

// Receive exists on Linux.
func Receive(uintptr, []byte, uintptr) (int, syscall.Errno) { panic("BUG: Receive without Fast") }

// Send exists on Linux.
func Send(uintptr, []byte) (int, syscall.Errno) { panic("BUG: Send without Fast") }
