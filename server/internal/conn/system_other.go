//go:build !linux

package conn

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// openFiles is unknown here.
func openFiles() int { return 0 }

// deferAccept is not available here.
func deferAccept(net.Listener, bool) {}

// lastRead does not check again: a request that arrives at this moment is lost.
func lastRead(net.Conn, []byte) (int, error) { return 0, io.EOF }

// readNow does not check either.
func readNow(net.Conn, []byte) (int, error) { return 0, io.EOF }

// refuseNew has no counterpart here.
func refuseNew(net.Listener) error { return errors.ErrUnsupported }

// disconnect has no counterpart here.
func disconnect(net.Conn) error { return errors.ErrUnsupported }

// wholeHandshakes has nothing to do here.
func wholeHandshakes(net.Listener) error { return nil }

// inheritance sets nothing here.
func inheritance(string, string, syscall.RawConn) error { return nil }

// shared is not available here: other systems give a port to the latest process, or to any.
func shared(string, string, syscall.RawConn) error { return errors.ErrUnsupported }

// preferNewest has nothing to choose from.
func preferNewest(net.Listener) {}

// inheritable sets nothing here either.
func inheritable(net.Listener) error { return nil }
