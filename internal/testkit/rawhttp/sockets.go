package rawhttp

import (
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Sockets returns what sockets Linux has between an IPv4 server, host:port, and an IPv4
// address, on the server's side, whether a process has them, they are in the queue of a
// listener, or nobody has them any more: their states as the kernel numbers them.
func Sockets(t testing.TB, server, client string) (states []string) {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprintf(":%04X", netip.MustParseAddrPort(server).Port())
	addr := netip.MustParseAddr(client).As4()
	slices.Reverse(addr[:]) // a word of this machine, which is little-endian
	from := strings.ToUpper(hex.EncodeToString(addr[:])) + ":"
	seen := map[string]bool{} // the kernel tells one twice if others come and go meanwhile
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], port) && strings.HasPrefix(f[2], from) && !seen[f[2]] {
			seen[f[2]] = true
			states = append(states, f[3])
		}
	}
	return states
}

// NoSocketSoon waits until there is no socket between a server and an IPv4 address; see [Sockets].
func NoSocketSoon(t testing.TB, server, client string) {
	t.Helper()
	for end := time.Now().Add(settled); ; time.Sleep(time.Millisecond) {
		left := Sockets(t, server, client)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s still has sockets in the states %v", client, left)
		}
	}
}

// settled is as long as a slow machine needs, and less than the minute for which the kernel keeps
// a socket whose client does not close.
const settled = 20 * time.Second

// WasReset waits for the end of a connection and reports whether it was a reset.
func WasReset(c net.Conn) bool {
	if through, ok := c.(*tls.Conn); ok {
		c = through.NetConn()
	}
	_, err := io.Copy(io.Discard, c)
	return errors.Is(err, syscall.ECONNRESET)
}

// StateEstablished is the state of a connection in the result of [Sockets].
const StateEstablished = "01"
