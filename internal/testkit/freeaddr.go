package testkit

import (
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

// Ports that FreeAddr picks: below those that the kernel picks for connections, which another
// one takes before a server does, and above those of package redistest.
const (
	firstPort = 29_000
	somePorts = 3_700
)

// picked counts ports, so that no two tests of a process get the same one, however soon its first
// user closes it.
var picked atomic.Uint32

// FreeAddr is an address on loopback on which nobody listens, for servers that cannot pick a port
// by themselves. Processes begin at different ports.
func FreeAddr(t T) string {
	t.Helper()
	for range somePorts {
		port := firstPort + (uint32(os.Getpid())*61+picked.Add(1))%somePorts
		ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		if err == nil {
			ln.Close()
			return ln.Addr().String()
		}
	}
	t.Fatal("testkit: no free port")
	return ""
}
