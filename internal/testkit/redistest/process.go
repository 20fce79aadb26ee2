//go:build linux

package redistest

import (
	"os/exec"
	"runtime"
	"sync"
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
