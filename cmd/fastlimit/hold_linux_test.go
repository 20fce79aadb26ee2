package main

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bound to an address alone, a socket would get a port that is free towards all servers, for
// which the kernel looks at thousands: 1 ms for each connection.
func init() {
	portLater = func(_, _ string, c syscall.RawConn) error {
		var err1 error
		err := c.Control(func(fd uintptr) {
			err1 = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		})
		return errors.Join(err, err1)
	}
}
