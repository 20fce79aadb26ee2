package redistest

import (
	"os"
	"runtime"
	"sync/atomic"
)

func lockThread() { runtime.LockOSThread() }

// ports counts from a start that differs between test processes, so that two
// that run at once rarely try the same port.
var ports atomic.Uint32

func nextPort() uint32 { return (uint32(os.Getpid())*61 + ports.Add(1)) % 9000 }
