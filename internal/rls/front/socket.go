package front

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// removeDead removes the socket of a process that was killed. It would be in the way for
// good: a container that starts again finds it on the volume that it shares with Envoy.
func removeDead(path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
	} else if errors.Is(err, syscall.ECONNREFUSED) { // nobody has it open
		_ = os.Remove(path) // else listening says why not
	}
}
