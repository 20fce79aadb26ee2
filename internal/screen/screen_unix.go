//go:build unix

package screen

import (
	"os"
	"syscall"
)

const supported = true

// Ends are the signals that would end a program and leave the terminal as it is. At Resized
// it has another size; at Continued somebody may have changed it.
var (
	Ends      = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
	Resized   = os.Signal(syscall.SIGWINCH)
	Continued = os.Signal(syscall.SIGCONT)
)
