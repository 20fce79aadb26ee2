package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	c := costs{{110, 100}, {104, 100}, {90, 100}}
	if got := c.verdict(); !strings.HasPrefix(got, "ratio 1.040 ") || !strings.HasSuffix(got, "of 3 pairs") {
		t.Error(got)
	}
	if r := c.results("deny"); len(r) != 2 || *r[0].CPUMicros != 0.104 || *r[1].CPUMicros != 0.1 {
		t.Errorf("results %+v", r)
	}
}

// The bare handler answers byte for byte as recorded, but for the date.
func TestBareAnswers(t *testing.T) {
	t.Parallel()
	for _, recorded := range []string{
		"HTTP/1.1 200 OK\r\nDate: D\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 429 Too Many Requests\r\nDate: D\r\nContent-Type: application/problem+json\r\nContent-Length: 2\r\n" +
			"Retry-After: 1\r\nRateLimit: \"per-ip\";r=0;t=1\r\n\r\n{}",
	} {
		var b bytes.Buffer
		var answer fasthttp.Response
		if err := parseAnswer([]byte(recorded), &answer); err != nil {
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
		if _, err := b.ReadFrom(conn); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		var got []string
		for line := range strings.SplitSeq(strings.Replace(b.String(), "Connection: close\r\n", "", 1), "\r\n") {
			if strings.HasPrefix(line, "Date: ") {
				line = "Date: D"
			}
			got = append(got, line)
		}
		if text := strings.Join(got, "\r\n"); text != recorded {
			t.Errorf("answered %q, want %q", text, recorded)
		}
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	n := 0
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n++; n > 3 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	file, err := record(ln.Addr().String(), http.StatusTooManyRequests)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	if text, err := os.ReadFile(filepath.Clean(file)); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 429 ") {
		t.Errorf("recorded %q, %v", text, err)
	}
}
