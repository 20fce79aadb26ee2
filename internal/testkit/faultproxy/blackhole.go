//go:build linux

package faultproxy

import (
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// BlackHole returns an address that neither accepts nor refuses connections.
func BlackHole(t testkit.T) string {
	t.Helper()
	addr, end := blackHole(t, "127.0.0.1:0")
	t.Cleanup(end)
	return addr
}

// blackHole listens on addr with a full queue: it dials connections that nobody
// accepts until one times out. From then on Linux drops every SYN, as a firewall
// would.
func blackHole(t testkit.T, addr string) (at string, end func()) {
	t.Helper()
	l := listen(t, addr)
	if err := shortenQueue(l); err != nil {
		t.Fatal(err)
	}
	open := []interface{ Close() error }{l}
	for {
		c, err := net.DialTimeout("tcp", l.Addr().String(), 200*time.Millisecond)
		if err != nil {
			break
		}
		open = append(open, c)
	}
	return l.Addr().String(), func() {
		for _, c := range open {
			_ = c.Close()
		}
	}
}

// shortenQueue leaves room for one connection that waits to be accepted: listen(2)
// on a socket that listens already changes its backlog.
func shortenQueue(l net.Listener) error {
	raw, err := l.(*net.TCPListener).SyscallConn() // a TCP listener
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), 0) })
	return errors.Join(err, failed)
}
