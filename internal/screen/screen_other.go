//go:build !unix

package screen

import "os"

// supported: without such a terminal, users get tables.
const supported = false

// Signals as elsewhere; the last two are never sent.
var (
	Ends      = []os.Signal{os.Interrupt}
	Resized   os.Signal
	Continued os.Signal
)
