//go:build !unix

package nowait

import (
	"errors"
	"net"
)

// Read is unsupported here.
func Read(net.Conn, []byte, func(fd int)) (int, error) { return 0, errors.ErrUnsupported }
