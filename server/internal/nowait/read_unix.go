//go:build unix

package nowait

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Read reads what has arrived, whatever the deadline. If that is nothing it calls empty, which may be nil,
// and its error is that of a deadline. Without a socket it is unsupported.
func Read(nc net.Conn, p []byte, empty func(fd int)) (n int, err error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, err
	}
	if failed := raw.Control(func(fd uintptr) {
		for {
			n, err = unix.Read(int(fd), p)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if errors.Is(err, unix.EAGAIN) && empty != nil {
			empty(int(fd))
		}
	}); failed != nil {
		return 0, failed
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		return 0, os.ErrDeadlineExceeded
	case err != nil:
		return 0, err
	case n <= 0:
		return 0, io.EOF
	}
	return n, nil
}
