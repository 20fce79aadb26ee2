//go:build !linux

package admin

import "net"

// socketUser is unknown here.
func socketUser(net.Conn) (uid uint32, ok bool) { return 0, false }
