package load

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

func TestParseHead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		head string
		want answer
		fail string // part of the error
	}{
		{head: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", want: answer{status: 200}},
		{head: "HTTP/1.0 429 No\r\ncontent-length:  12\r\n\r\n", want: answer{status: 429, body: 12}},
		{head: "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\n", want: answer{status: 200, body: 1, close: true}},
		{head: "HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n", want: answer{status: 204}},
		{head: "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", want: answer{status: 304}},
		{head: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", fail: "Content-Length"},
		{head: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", fail: "-1"},
		{head: "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", fail: "x"},
		{head: "HTTP/1.1 100 Continue\r\n\r\n", fail: "100"},
		{head: "HTTP/1.1 600 Far\r\n\r\n", fail: "600"},
		{head: "HTTP/2.0 200 OK\r\n\r\n", fail: "HTTP/2.0"},
		{head: "SSH-2.0-OpenSSH_9\r\n\r\n", fail: "SSH"},
		{head: "\r\n\r\n", fail: "not an HTTP/1 answer"},
	} {
		got, err := parseHead([]byte(c.head))
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%q: error %v, want one with %q", c.head, err, c.fail)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%q: %+v, %v, want %+v", c.head, got, err, c.want)
		}
	}
}

func FuzzParseHead(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 429 \r\nc\r\nConnection: close\r\nContent-Length: 99999999999999999999\r\n\r\n"))
	f.Add([]byte("HTTP/1.\r\n\r\n"))
	f.Fuzz(func(t *testing.T, head []byte) {
		a, err := parseHead(head)
		if err == nil && (a.status < 200 || a.status >= maxStatus || a.body < 0) {
			t.Errorf("%q: %+v", head, a)
		}
	})
}

// readConn reads what a reader gives.
type readConn struct {
	net.Conn
	read func([]byte) (int, error)
}

func (c readConn) Read(p []byte) (int, error) { return c.read(p) }

// Answers are found however the bytes come.
func TestReceiveInPieces(t *testing.T) {
	t.Parallel()
	// One after the other: the next request goes out when the answer has come.
	stream := func() io.Reader {
		return io.MultiReader(
			strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"),
			strings.NewReader("HTTP/1.1 429 No\r\nContent-Length: 0\r\n\r\n"),
			strings.NewReader("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 20000\r\n\r\n"+strings.Repeat("x", 20000)),
		)
	}
	readers := map[string]func([]byte) (int, error){
		"whole":  stream().Read,
		"bytes":  iotest.OneByteReader(stream()).Read,
		"halves": iotest.HalfReader(stream()).Read,
	}
	for name, read := range readers {
		c := newConn(readConn{read: read})
		for i, want := range []answer{{200, 3, false}, {429, 0, false}, {200, 20000, true}} {
			if got, err := c.receive(); err != nil || got != want {
				t.Errorf("%s: answer %d is %+v, %v, want %+v", name, i, got, err, want)
			}
		}
		if _, err := c.receive(); err == nil {
			t.Errorf("%s: an answer after the end", name)
		}
	}
}

func TestReceiveEndlessHeaders(t *testing.T) {
	t.Parallel()
	c := newConn(readConn{read: func(p []byte) (int, error) {
		for i := range p {
			p[i] = 'a'
		}
		return len(p), nil
	}})
	if _, err := c.receive(); err == nil || !strings.Contains(err.Error(), "exceed") {
		t.Errorf("error %v, want one that tells of the length", err)
	}
}

func TestReceiveDoesNotAllocate(t *testing.T) {
	const one = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc"
	c := newConn(readConn{read: func(p []byte) (int, error) { return copy(p, one), nil }})
	if n := testing.AllocsPerRun(100, func() {
		if _, err := c.receive(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for an answer, want 0", n)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	asked := 0
	peers := make(chan string, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		peers <- host
		if r.URL.Path != "/x" || r.Host == "" {
			w.WriteHeader(http.StatusBadRequest)
		} else if host == "127.1.0.1" {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(server.Close)
	target, err := NewTarget(server.URL+"/x", 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := DialClosed(t.Context(), target, 5, Loopback(5))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	for range 2 {
		counts, err := l.Run(t.Context(), 18)
		asked += 20
		if err != nil || counts.Total() != 20 || counts.Status(200) != 16 || counts.Denied() != 4 {
			t.Fatalf("%d answers, %d times 200, %d denied, %v: want 20, 16, 4", counts.Total(), counts.Status(200), counts.Denied(), err)
		}
	}
	seen := map[string]int{}
	for range asked {
		seen[<-peers]++
	}
	if len(peers) != 0 || len(seen) != 5 || seen["127.1.0.0"] != 8 {
		t.Errorf("requests by source: %v and %d more, want 8 from each of 5", seen, len(peers))
	}
}

// Requests name their clients in a header.
func TestAs(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get("X-Forwarded-For")+" "+r.Host]++
	}))
	t.Cleanup(server.Close)
	target, err := NewTarget(server.URL, 0)
	if err != nil {
		t.Fatal(err)
	}
	next := netip.MustParseAddr("10.0.0.0")
	target = target.As("X-Forwarded-For", func() netip.Addr { next = next.Next(); return next })
	l, err := DialClosed(t.Context(), target, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	if _, err := l.Run(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 20 || seen["10.0.0.20 "+strings.TrimPrefix(server.URL, "http://")] != 1 {
		t.Errorf("clients %v, want 10.0.0.1 to 10.0.0.20, once each", seen)
	}
}

func TestClosedStopsWhenCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	t.Cleanup(server.Close)
	target, err := NewTarget(server.URL, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := DialClosed(ctx, target, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	counts, err := l.Run(ctx, 1<<30)
	if err == nil || counts.Total() == 0 || counts.Total()%2 != 0 {
		t.Errorf("%d answers, %v: want a few and the context's error", counts.Total(), err)
	}
	if counts, err = l.Run(t.Context(), 10); err != nil || counts.Total() != 10 {
		t.Errorf("afterwards: %d answers, %v: want 10", counts.Total(), err)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("220 mail.example.com ESMTP\r\n\r\n"))
		}
	}()
	target, err := NewTarget("http://"+ln.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := target.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "220 mail") {
		t.Errorf("error %v, want one that shows the nonsense", err)
	}
	ln.Close()
	if _, err := target.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), ln.Addr().String()) {
		t.Errorf("error %v, want one that names the address", err)
	}
}

func TestNewTarget(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "127.0.0.1:80", "https://example.com", "http://", "http://[::1", "ftp://x"} {
		if _, err := NewTarget(bad, 0); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
	got, err := NewTarget("http://[::1]/a?b=c", 0)
	if err != nil || got.Addr() != "[::1]:80" || !strings.HasPrefix(string(got.request), "GET /a?b=c HTTP/1.1\r\nHost: [::1]\r\n") {
		t.Errorf("target %q, request %q, %v", got.Addr(), got.request, err)
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, ip := range Loopback(70_000) {
		if !ip.IsLoopback() {
			t.Fatalf("%v is not of this machine", ip)
		}
		seen[ip.String()] = true
	}
	if len(seen) != 70_000 {
		t.Errorf("%d different addresses, want 70000", len(seen))
	}
}
