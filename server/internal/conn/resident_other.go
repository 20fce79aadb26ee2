//go:build !linux || (!amd64 && !arm64)

package conn

import "net"

// residents would answer simple requests without fasthttp's loop, which is not done here.
type residents struct{}

func newResidents(int) *residents { return nil }

// reside leaves all connections to fasthttp.
func (l *Listener) reside(*Conn) step { return handOver }

// finWaits is for residents.
func finWaits(net.Conn) bool { return false }

// hasLeft cannot tell here.
func hasLeft(net.Conn) bool { return false }
