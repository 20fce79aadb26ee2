package conn

import (
	"errors"
	"io/fs"
	"net"
)

// listenUnix has no counterpart here: a path would have no permissions.
func listenUnix(string, fs.FileMode) (_ net.Listener, fix string, err error) {
	return nil, "write host:port", errors.ErrUnsupported
}
