//go:build linux && (amd64 || arm64)

package conn

import (
	"errors"
	"net"
	"os"

	"github.com/fastlimit/fastlimit/internal/unixsocket"
)

// rawListener is a listening socket whose connections doors accept by its descriptor. They wait in [os.File],
// because the RawConn of a [net.TCPListener] cannot wait.
type rawListener struct {
	*os.File
	addr   net.Addr
	refuse func() error // see retryListener.drain
	unbind func() error
}

// pollable returns the socket of a listener, which is then closed or owned by the result.
func pollable(ln net.Listener) (net.Listener, error) {
	l := &rawListener{addr: ln.Addr(), unbind: func() error { return nil }}
	l.refuse = func() error { return refuseNew(l) }
	var err error
	switch ln := ln.(type) {
	case *net.TCPListener:
		l.File, err = ln.File()
	case *unixsocket.Listener:
		l.File, err = ln.UnixListener.File()
		l.refuse, l.unbind = ln.RefuseNew, ln.RefuseNew
	case *net.UnixListener: // from the service manager
		l.File, err = ln.File()
	default:
		err = errors.ErrUnsupported
	}
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	if u, ok := ln.(*unixsocket.Listener); ok {
		return l, u.UnixListener.Close() // its path stays
	}
	return l, ln.Close()
}

// RefuseNew makes new connections fail.
func (l *rawListener) RefuseNew() error { return l.refuse() }

// Addr implements net.Listener.
func (l *rawListener) Addr() net.Addr { return l.addr }

// Close implements net.Listener.
func (l *rawListener) Close() error { return errors.Join(l.unbind(), l.File.Close()) }

// Accept is not for doors.
func (l *rawListener) Accept() (net.Conn, error) { return nil, errors.ErrUnsupported }
