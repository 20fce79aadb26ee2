// Package unixsocket listens on paths: with the right mode from the start, one process at a time, and
// replacing the socket of a process that has ended.
package unixsocket

import (
	"errors"
	"net"
	"strings"
)

// scheme begins an address that is a path.
const scheme = "unix:"

// Path returns the path of an address of a Unix socket.
func Path(text string) (path string, ok bool) { return strings.CutPrefix(text, scheme) }

// address is the path of a listener. Its text is what operators write.
type address string

// Network implements net.Addr.
func (address) Network() string { return "unix" }

// ErrInUse means that another process listens on a path.
var ErrInUse = errors.New("another process listens there")

// Addr returns an address to show, which need not be a path.
func Addr(text string) net.Addr {
	path, _ := Path(text)
	return address(path)
}

// String implements net.Addr.
func (a address) String() string { return scheme + string(a) }
