//go:build !unix

package screen

import "os"

// supported: whoever has no such terminal gets tables.
const supported = false

// Signals as elsewhere; nobody sends the last two.
var (
	Ends      = []os.Signal{os.Interrupt}
	Resized   os.Signal
	Continued os.Signal
)
