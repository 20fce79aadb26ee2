package conn

import (
	"net"
	"strconv"
	"testing"
)

// 0.0.0.0 is all of IPv4 and nothing of IPv6, as it reads; an empty host and
// [::] are both.
func TestWildcards(t *testing.T) {
	t.Parallel()
	for address, both := range map[string]bool{"0.0.0.0:0": false, ":0": true, "[::]:0": true, "127.0.0.1:0": false} {
		ln, err := Listen("listen", address, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port) // it was asked for
		for host, want := range map[string]bool{"127.0.0.1": true, "::1": both} {
			c, err := net.Dial("tcp", net.JoinHostPort(host, port))
			if (err == nil) != want {
				t.Errorf("%s: dialing %s: %v", address, host, err)
			}
			if err == nil {
				c.Close()
			}
		}
	}
}
