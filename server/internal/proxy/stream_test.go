package proxy

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
)

// streamSize is how many MiB TestStreams sends each way.
var streamSize = flag.Int("stream", 32, "MiB that TestStreams sends each way, of which 1024 are the full size")

// pattern is a stream whose bytes encode their position, with a prime period.
type pattern struct{ at, left int64 }

var patternBytes = func() []byte {
	b := make([]byte, 65_521)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}()

// Read implements io.Reader.
func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	from := patternBytes[p.at%int64(len(patternBytes)):]
	n := copy(b, from[:min(int64(len(from)), p.left)])
	p.at += int64(n)
	p.left -= int64(n)
	return n, nil
}

// Write implements io.Writer: it checks.
func (p *pattern) Write(b []byte) (n int, err error) {
	for n < len(b) {
		from := patternBytes[p.at%int64(len(patternBytes)):]
		m := min(len(b)-n, len(from))
		if !bytes.Equal(b[n:n+m], from[:m]) {
			return n, fmt.Errorf("other bytes than were sent from %d on", p.at)
		}
		n += m
		p.at += int64(m)
	}
	return n, nil
}

// memory is the resident memory of this process in bytes, now or at its peak.
func memory(t testing.TB, field string) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, rest, _ := strings.Cut(string(b), field+":")
	line, _, _ := strings.Cut(rest, "kB")
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	must(t, err)
	return n << 10
}

// Bodies of any length go through in constant memory, whole and in order: that of client,
// proxy and server together grows by 16 MiB at most. Not parallel: it looks at the process.
func TestStreams(t *testing.T) {
	size := int64(*streamSize) << 20
	if testing.Short() {
		size = min(size, 8<<20)
	}
	s := start(t, nil, serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		p := new(pattern)
		if _, err := io.Copy(p, r.Body); err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Got", fmt.Sprint(p.at))
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
		if r.Method == http.MethodGet {
			if _, err := io.Copy(w, &pattern{left: size}); err != nil {
				t.Error(err)
			}
		}
	}))
	c := client(t)
	c.Timeout = 0
	for _, path := range []string{"/length", "/chunks"} {
		for _, method := range []string{"GET", "POST"} {
			debug.FreeOSMemory()
			before := memory(t, "VmRSS")
			must(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // the peak begins anew
			req := request(t, method, "http://"+s.addr+path, nil)
			if method == "POST" {
				req.Body, req.ContentLength = io.NopCloser(&pattern{left: size}), -1
				if path == "/length" {
					req.ContentLength = size
				}
			}
			resp, err := c.Do(req)
			must(t, err)
			got := new(pattern)
			_, err = io.Copy(got, resp.Body)
			resp.Body.Close()
			if method == "GET" && (got.at != size || err != nil) || method == "POST" && resp.Header.Get("X-Got") != fmt.Sprint(size) {
				t.Errorf("%s %s: %d bytes, the server got %s: %v", method, path, got.at, resp.Header.Get("X-Got"), err)
			}
			grown := memory(t, "VmHWM") - before
			t.Logf("%s %s: %d MiB, memory grew by %d KiB", method, path, size>>20, grown>>10)
			if grown > 16<<20 {
				t.Errorf("%s %s: memory grew from %d by %d bytes", method, path, before, grown)
			}
		}
	}
}

// A client that does not read holds up its own answer only, and one that does not send its
// own request; what they hold is bounded by the buffers of sockets.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	each := testkit.Size(20, 100)
	s := start(t, nil, serveRaw(t, func(c net.Conn, _ int) {
		for in := bufio.NewReader(c); ; {
			req, err := http.ReadRequest(in)
			switch {
			case err != nil:
				return
			case req.URL.Path == "/endless":
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
				for err == nil {
					_, err = io.WriteString(c, "1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n")
				}
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			_, _ = io.WriteString(c, okHead+"Content-Length: 5\r\n\r\n/fast")
		}
	}))
	var slow []net.Conn
	for i := range 2 * each {
		c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
		_ = c.SetDeadline(time.Time{})
		if i%2 == 0 {
			_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
			_, _ = io.WriteString(c, "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
		} else {
			_, _ = io.WriteString(c, "POST /sink HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
		}
		slow = append(slow, c)
	}
	rawhttp.Eventually(t, func() bool { return s.pool.Stats().Servers[0].InUse == len(slow) })
	k := &talker{t: t, addr: s.addr}
	for range 10 * each {
		if resp, body, err := k.ask("GET", "/fast", ""); err != nil || resp.StatusCode != 200 || body != "/fast" {
			t.Fatalf("%v %q %v", resp, body, err)
		}
	}
	if pool := s.pool.Stats().Servers[0]; pool.InUse != len(slow) || pool.Dials != uint64(len(slow))+1 {
		t.Errorf("%+v", pool)
	}
	for i, c := range slow {
		if i%2 == 1 {
			_, _ = io.WriteString(c, "0\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || resp.StatusCode != 200 {
				t.Errorf("%v %v", resp, err)
			}
		}
		c.Close()
	}
	rawhttp.Eventually(t, func() bool { return s.pool.Stats().Servers[0].InUse == 0 })
}
