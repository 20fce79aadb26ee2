package testkit

import (
	"net"
	"strconv"
	"sync"
)

// Ports are picked below those that the kernel picks for connections. Each process of tests
// has a block of them to itself: it listens on the first for as long as it lives. The bus of a
// Redis cluster is busPorts above its server.
const (
	firstPort, lastPort = 10_000, 20_000
	blockPorts          = 250
	busPorts            = 10_000
)

// block is what this process has.
var block struct {
	sync.Mutex

	claim net.Listener // on the first port, nil before any was asked for
	next  int          // the offset of the port to try next
}

// FreePort is a port of loopback on which nobody listens, for servers that cannot pick one by
// themselves. No other process of tests gets it, and no other test of this one soon.
func FreePort(t T) int {
	t.Helper()
	block.Lock()
	defer block.Unlock()
	for port := firstPort; block.claim == nil; port += blockPorts {
		if port == lastPort {
			t.Fatal("testkit: every block of ports is taken")
		}
		block.claim, _ = listen(port)
	}
	first := block.claim.Addr().(*net.TCPAddr).Port
	for range blockPorts {
		block.next = block.next%(blockPorts-1) + 1
		if port := first + block.next; isFree(port) && isFree(port+busPorts) {
			return port
		}
	}
	t.Fatal("testkit: no free port")
	return 0
}

// FreeAddr is [FreePort] as an address.
func FreeAddr(t T) string {
	t.Helper()
	return local(FreePort(t))
}

func isFree(port int) bool {
	ln, err := listen(port)
	if err != nil {
		return false
	}
	_ = ln.Close()
	return true
}

func listen(port int) (net.Listener, error) { return net.Listen("tcp", local(port)) }

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
