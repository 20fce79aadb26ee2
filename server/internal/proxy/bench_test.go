package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
)

// Requests on keep-alive connections through the proxy to an upstream that answers at once.
func BenchmarkForward(b *testing.B) {
	const answer = "HTTP/1.1 200 OK\r\nServer: app\r\nDate: Mon, 23 Nov 2026 00:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!"
	app := serveRaw(b, func(c net.Conn, _ int) {
		buf := make([]byte, 4096)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	})
	s := start(b, nil, app)
	c := rawhttp.DialFrom(b, "127.0.0.1", s.addr)
	const ask = "GET /index.html HTTP/1.1\r\nHost: example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: text/html\r\nAccept-Encoding: gzip\r\n\r\n"
	br := bufio.NewReader(c)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.WriteString(c, ask); err != nil {
			b.Fatal(err)
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 200 {
			b.Fatal(resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
}
