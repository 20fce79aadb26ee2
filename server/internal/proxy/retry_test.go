package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
)

// A request on a pooled connection that dies before a byte of the answer is sent again,
// once, if it is idempotent; no other is ever sent twice, and none whose answer has begun.
func TestRetries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, more string
		dies         int    // how many connections die of the request
		says         string // before they do
		seen, status int
		retries      uint64
	}{
		{"GET", "", 1, "", 2, 200, 1},
		{"HEAD", "", 1, "", 2, 200, 1},
		{"OPTIONS", "", 1, "", 2, 200, 1},
		{"DELETE", "", 1, "", 2, 200, 1},
		{"PUT", "Content-Length: 2\r\n\r\nok", 1, "", 2, 200, 1},
		{"GET", "", 9, "", 2, 502, 1},
		{"PUT", "Content-Length: 0\r\n\r\n", 9, "", 2, 502, 1},
		{"GET", "", 1, "H", 1, 502, 0},
		{"GET", "", 1, "HTTP/1.1 103 Early Hints\r\n\r\n", 1, 502, 0},
		{"POST", "Content-Length: 2\r\n\r\nok", 1, "", 1, 502, 0},
		{"POST", "Content-Length: 0\r\n\r\n", 1, "", 1, 502, 0},
		{"POST", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1, "", 1, 502, 0},
		{"PATCH", "Content-Length: 2\r\n\r\nok", 1, "", 1, 502, 0},
		{"get", "", 1, "", 1, 502, 0},
		{"LOCK", "", 1, "", 1, 502, 0},
		{"PUT", "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000), 1, "", 1, 502, 0},
	} {
		t.Run(fmt.Sprintf("%s %.40q %d %q", tt.method, tt.more, tt.dies, tt.says), func(t *testing.T) {
			t.Parallel()
			var seen atomic.Int64
			s := start(t, nil, serveRaw(t, func(c net.Conn, n int) {
				for in := bufio.NewReader(c); ; {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					if req.URL.Path == "/die" && seen.Add(1) <= int64(tt.dies) {
						_, _ = io.WriteString(c, tt.says)
						return
					}
					_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Marker: %s\r\nX-Connection: %d\r\nContent-Length: %d\r\n\r\n%s", req.URL.Path, n, len(req.URL.Path), req.URL.Path)
				}
			}))
			k := &talker{t: t, addr: s.addr}
			k.good("/first")
			k.discard()
			c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
			more := tt.more
			if more == "" {
				more = "\r\n"
			}
			_, _ = fmt.Fprintf(c, "%s /die HTTP/1.1\r\nHost: a\r\n%s", tt.method, more)
			in := bufio.NewReader(c)
			resp, err := http.ReadResponse(in, &http.Request{Method: tt.method})
			for err == nil && resp.StatusCode == http.StatusEarlyHints {
				resp, err = http.ReadResponse(in, &http.Request{Method: tt.method})
			}
			must(t, err)
			if st := s.Stats(); resp.StatusCode != tt.status || seen.Load() != int64(tt.seen) || st.Retries != tt.retries {
				t.Errorf("%s, the server has seen %d, %+v", resp.Status, seen.Load(), st)
			}
		})
	}
}

// Connections that ended while they were idle cost nobody anything, POST included.
func TestStaleConnections(t *testing.T) {
	t.Parallel()
	const many = 20
	var all sync.WaitGroup
	all.Add(many)
	ended := make(chan struct{})
	var posts atomic.Int64
	s := start(t, nil, serveRaw(t, func(c net.Conn, n int) {
		in := bufio.NewReader(c)
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if n > many {
			posts.Add(1)
		} else {
			all.Done()
			all.Wait() // each has a connection of its own
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Marker: %s\r\nContent-Length: %d\r\n\r\n%s", req.URL.Path, len(req.URL.Path), req.URL.Path)
		<-ended
	}))
	var clients sync.WaitGroup
	for range many {
		clients.Go(func() { (&talker{t: t, addr: s.addr}).good("/a") })
	}
	clients.Wait()
	if pool := s.pool.Stats().Servers[0]; pool.Idle != many {
		t.Fatalf("%+v", pool)
	}
	close(ended)
	time.Sleep(50 * time.Millisecond) // the FINs are on loopback; if one is late, the request goes another way
	k := &talker{t: t, addr: s.addr}
	resp, body, err := k.ask("POST", "/post", "Content-Length: 0\r\n")
	if err != nil || resp.StatusCode != 200 || body != "/post" || posts.Load() != 1 {
		t.Errorf("%v %q %v, %d posts", resp, body, err, posts.Load())
	}
	if st := s.Stats(); st.Retries != 0 || st.Failures["closed"] != 0 {
		t.Errorf("%+v", st)
	}
}
