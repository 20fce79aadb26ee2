package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
)

// Whatever is going on with an upstream, a connection that is reset has no socket at once. The
// upstream is let go of too; in the middle of an answer that is when more of it comes at the
// latest.
func TestReset(t *testing.T) {
	t.Parallel()
	const partOf = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"
	for _, tc := range []struct {
		name, send, answer string
		late               bool
	}{
		{name: "question", send: "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		{name: "upload", send: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello"},
		{name: "answer", send: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", answer: partOf, late: true},
		{name: "tunnel", send: upgradeRequest, answer: switched},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			asked, more := make(chan struct{}), make(chan struct{})
			s := start(t, nil, serveRaw(t, func(c net.Conn, _ int) {
				in := bufio.NewReader(c)
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				_, _ = io.WriteString(c, tc.answer)
				asked <- struct{}{}
				if tc.late {
					<-more
					_, _ = io.WriteString(c, "hello")
				}
				_, _ = io.Copy(io.Discard, c)
				<-more // it does not end by itself
			}))
			t.Cleanup(func() { close(more) })
			c := rawhttp.DialFrom(t, "127.0.0.5", s.addr)
			_, _ = io.WriteString(c, tc.send)
			<-asked
			if tc.answer != "" { // it has got through
				if _, err := io.ReadFull(c, make([]byte, 10)); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.front.Conns.Reset(netip.MustParsePrefix("127.0.0.5/32")); got != 1 {
				t.Fatalf("%d connections were reset", got)
			}
			rawhttp.NoSocketSoon(t, s.addr, "127.0.0.5")
			if !rawhttp.WasReset(c) {
				t.Error("the client was not told by a reset")
			}
			if tc.late {
				more <- struct{}{}
			}
			rawhttp.Eventually(t, func() bool { return s.front.Conns.Open() == 0 && s.pool.Stats().Servers[0].InUse == 0 })
		})
	}
}
