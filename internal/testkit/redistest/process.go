//go:build linux

package redistest

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// spawner starts processes: Pdeathsig is tied to the thread that forked, so
// that one must live as long as the tests.
var spawner = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go Spawn(c)
	return c
})

// Spawn is the goroutine that starts servers, for leak checks to know by name.
func Spawn(c <-chan func()) {
	runtime.LockOSThread()
	for f := range c {
		f()
	}
}

// StartLocked starts a command on the thread that lives as long as the tests do.
func StartLocked(cmd *exec.Cmd) error {
	errs := make(chan error)
	spawner() <- func() { errs <- cmd.Start() }
	return <-errs
}

// FreePort finds a port that is free now, below the range of outgoing
// connections, and whose cluster bus port is free too.
func FreePort(t testkit.T) int {
	t.Helper()
	for range 200 {
		port := 10000 + int(nextPort())
		if free(port) && free(port+10000) {
			return port
		}
	}
	t.Fatal("redistest: no free port")
	return 0
}

func free(port int) bool {
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

// ports counts from a start that differs between test processes, so that two
// that run at once rarely try the same port.
var ports atomic.Uint32

func nextPort() uint32 { return (uint32(os.Getpid())*61 + ports.Add(1)) % 9000 }
