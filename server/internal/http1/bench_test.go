package http1

import (
	"strings"
	"testing"
)

// The cost of an application's response and a body of 16 chunks. Requests are in BenchmarkHead of package
// conn, compared with its own reader and fasthttp's.
func BenchmarkResponse(b *testing.B) {
	head := []byte(ok + "Server: nginx\r\nDate: Mon, 23 Nov 2026 00:00:00 GMT\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 5120\r\nConnection: keep-alive\r\nVary: Accept-Encoding\r\n" +
		"Cache-Control: private, max-age=0\r\nSet-Cookie: sid=0123456789abcdef; Path=/; HttpOnly\r\nX-Request-Id: 0123456789abcdef0123456789abcdef\r\n\r\n")
	for b.Loop() {
		var r Response
		if n, err := r.Parse(head, false); n == 0 {
			b.Fatal(err)
		}
	}
}

func BenchmarkBody(b *testing.B) {
	stream := []byte(strings.Repeat("400\r\n"+strings.Repeat("x", 1024)+"\r\n", 16) + "0\r\n\r\n")
	b.SetBytes(int64(len(stream)))
	var body Body
	for b.Loop() {
		body.Begin(Chunked)
		for p := stream; !body.Done(); {
			skip, n, err := body.Next(p)
			if err != nil {
				b.Fatal(err)
			}
			p = p[skip+n:]
		}
	}
}
