//go:build linux && (amd64 || arm64)

package conn

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socket is a TCP or Unix connection that a door has accepted. It implements net.Conn. At the door it is a
// descriptor and nobody waits for it; [socket.keep] adds it to Go's poller. An [os.File] takes fewer calls
// than a [net.TCPConn]: the connection inherits the options of its listener (inherit), and its addresses are
// read when needed.
type socket struct {
	fd   uintptr
	peer netip.AddrPort // invalid for a Unix socket
	file *os.File       // nil: at the door
}

// keep returns the socket in a form that can wait. The one at the door must not be used any more. An error
// means that Go's poller refuses it, and that it is closed.
func (s *socket) keep() (*socket, error) {
	f := os.NewFile(s.fd, "socket")
	if err := f.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &socket{s.fd, s.peer, f}, nil
}

// client is the address of the peer.
func (s *socket) client() netip.Addr {
	if !s.peer.IsValid() {
		return thisMachine
	}
	return s.peer.Addr()
}

// Read implements net.Conn.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.file.Read(p)
	return n, socketError("read", err)
}

// Write implements net.Conn.
func (s *socket) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	return n, socketError("write", err)
}

// socketError converts an error to that of a net.Conn: package tls expects a [net.Error].
func socketError(op string, err error) error {
	var path *os.PathError
	switch {
	case err == nil, err == io.EOF: //nolint:errorlint // as os.File returns it
		return err
	case errors.Is(err, os.ErrClosed):
		err = net.ErrClosed
	case errors.As(err, &path):
		err = path.Err
	}
	return &net.OpError{Op: op, Net: "tcp", Err: err}
}

// Close implements net.Conn.
func (s *socket) Close() error { return socketError("close", s.file.Close()) }

// RemoteAddr implements net.Conn.
func (s *socket) RemoteAddr() net.Addr {
	if !s.peer.IsValid() {
		return &net.UnixAddr{Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(s.peer)
}

// LocalAddr implements net.Conn.
func (s *socket) LocalAddr() (a net.Addr) {
	a = &net.UnixAddr{Net: "unix"}
	_ = control(s, func(fd int) error {
		sa, err := unix.Getsockname(fd)
		switch sa := sa.(type) {
		case *unix.SockaddrInet4:
			a = &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port}
		case *unix.SockaddrInet6:
			a = &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port}
		}
		return err
	})
	return a
}

// SetDeadline implements net.Conn.
func (s *socket) SetDeadline(t time.Time) error { return socketError("set", s.file.SetDeadline(t)) }

// SetReadDeadline implements net.Conn.
func (s *socket) SetReadDeadline(t time.Time) error {
	return socketError("set", s.file.SetReadDeadline(t))
}

// SetWriteDeadline implements net.Conn.
func (s *socket) SetWriteDeadline(t time.Time) error {
	return socketError("set", s.file.SetWriteDeadline(t))
}

// CloseWrite sends a FIN.
func (s *socket) CloseWrite() error {
	return control(s, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
}

// SetLinger with 0 seconds makes close reset the connection.
func (s *socket) SetLinger(sec int) error {
	return control(s, func(fd int) error {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: int32(sec)})
	})
}

// SyscallConn implements [syscall.Conn].
func (s *socket) SyscallConn() (syscall.RawConn, error) {
	if s.file == nil {
		return descriptor(s.fd), nil
	}
	return s.file.SyscallConn()
}

// descriptor is a socket for which nobody waits. It implements [syscall.RawConn].
type descriptor uintptr

// Control implements syscall.RawConn.
func (d descriptor) Control(f func(fd uintptr)) error {
	f(uintptr(d))
	return nil
}

// Read implements syscall.RawConn.
func (d descriptor) Read(func(fd uintptr) bool) error { return errors.ErrUnsupported }

// Write implements syscall.RawConn.
func (d descriptor) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }
