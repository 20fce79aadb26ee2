//go:build unix

package screen

import (
	"os"
	"syscall"
)

const supported = true

// Ends are the signals that would end a program and leave the terminal as it is. Resized says that the size
// has changed; Continued, that another program may have changed the terminal.
var (
	Ends      = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
	Resized   = os.Signal(syscall.SIGWINCH)
	Continued = os.Signal(syscall.SIGCONT)
)
