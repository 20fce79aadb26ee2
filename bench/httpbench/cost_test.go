package httpbench

import (
	"io"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	fast, bare := []float64{.110, .104, .090, .2}, []float64{.100, .100, .100} // the last pair is half a one
	if got := ratios(fast, bare); !strings.HasPrefix(got, "ratio 1.040 ") || !strings.HasSuffix(got, "of 3 pairs") {
		t.Error(got)
	}
}

// The bare server answers byte for byte as what it has recorded, but for the
// date. It asks until it gets the status that is wanted.
func TestBareAnswers(t *testing.T) {
	t.Parallel()
	for status, recorded := range map[int]string{
		200: "HTTP/1.1 200 OK\r\nDate: D\r\nContent-Length: 0\r\n\r\n",
		429: "HTTP/1.1 429 Too Many Requests\r\nDate: D\r\nContent-Type: application/problem+json\r\nContent-Length: 2\r\n" +
			"Retry-After: 1\r\nRateLimit: \"per-ip\";r=0;t=1\r\n\r\n{}",
	} {
		var answer fasthttp.Response
		if err := record(after(t, 3, recorded), status, &answer); err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := bareServer(&answer)
		go func() { _ = s.Serve(ln) }()
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		got := regexp.MustCompile(`Date: [^\r]*`).ReplaceAllString(strings.Replace(string(b), "Connection: close\r\n", "", 1), "Date: D")
		if got != recorded {
			t.Errorf("answered %q, want %q", got, recorded)
		}
	}
}

// after is a server that answers so many requests with 503, and then with raw.
func after(t *testing.T, busy int, raw string) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for buf := make([]byte, 4096); ; busy-- {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			answer := raw
			if busy > 0 {
				answer = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
			}
			_, _ = io.WriteString(conn, answer)
		}
	}()
	return ln.Addr().String()
}
