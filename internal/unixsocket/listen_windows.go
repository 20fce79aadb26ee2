package unixsocket

import (
	"errors"
	"io/fs"
	"net"
)

// Listener has no counterpart here: a path would have no permissions.
type Listener struct{ *net.UnixListener }

// Listen fails.
func Listen(string, fs.FileMode) (_ *Listener, fix string, err error) {
	return nil, "write host:port", errors.ErrUnsupported
}

// RefuseNew has nothing to remove.
func (*Listener) RefuseNew() error { return nil }
