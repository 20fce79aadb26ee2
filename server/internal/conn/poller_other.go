//go:build !linux

package conn

import (
	"errors"
	"net"
	"syscall"
)

// poller notices that clients leave by reading ahead, and can do nothing else.
type poller struct{}

const arrives = 0

func (*poller) watchLeaving(c *Conn, left func()) (stop func(), err error) { return readAhead(c, left) }

func (*poller) watch(syscall.Conn, uint32, func()) (number uint64, err error) {
	return 0, errors.ErrUnsupported
}

func (*poller) forget(syscall.Conn, uint64) {}

func (*poller) close() {}

// socketOf returns nil: nothing can be watched here.
func socketOf(net.Conn) syscall.Conn { return nil }
