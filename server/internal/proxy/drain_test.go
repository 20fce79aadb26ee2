package proxy

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
)

// tunnelCount is the number of upgraded connections of TestTunnels.
var tunnelCount = flag.Int("tunnels", 100, "upgraded connections of TestTunnels, of which 1000 are the full size")

// echoing switches protocols, and then sends back what it gets.
func echoing(c net.Conn, _ int) {
	in := bufio.NewReader(c)
	if _, err := http.ReadRequest(in); err != nil {
		return
	}
	_, _ = io.WriteString(c, switched)
	_, _ = io.Copy(c, in)
}

const (
	upgradeRequest = "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Y, Upgrade\r\nX-Y: z\r\nUpgrade: echo\r\n\r\n"
	switched       = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n"
)

// wants reads what has to come next.
func wants(t testing.TB, c io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Errorf("%q %v, want %q", got[:n], err, want)
	}
}

// Upgraded connections pass all bytes both ways, including those that come with the request, and end at the
// drain: idle ones, busy ones, and those whose server continues.
func TestTunnels(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *standOptions) { o.pool.MaxConnections = 1 << 14 }, serveRaw(t, echoing))
	var clients, ready sync.WaitGroup
	ready.Add(*tunnelCount)
	for i := range *tunnelCount {
		c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
		clients.Go(func() {
			marker := fmt.Sprintf("%8d", i)
			_, _ = io.WriteString(c, upgradeRequest+marker) // some of it early
			wants(t, c, switched+marker)
			for range 10 {
				_, _ = io.WriteString(c, marker)
				wants(t, c, marker)
			}
			ready.Done()
			if i%2 == 0 { // idle
				if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
					t.Errorf("%q %v", rest, err)
				}
				return
			}
			for { // busy: all that comes is what was sent
				if _, err := io.WriteString(c, marker); err != nil {
					return
				}
				got := make([]byte, len(marker))
				if n, err := io.ReadFull(c, got); string(got[:n]) != marker[:n] {
					t.Errorf("%q", got)
				} else if err != nil {
					return
				}
			}
		})
	}
	ready.Wait()
	if st := s.Stats(); st.Tunnels != int64(*tunnelCount) || st.Answers["1xx"] != uint64(*tunnelCount) {
		t.Errorf("%+v", st)
	}
	s.drain()
	clients.Wait()
	if st, pool := s.Stats(), s.pool.Stats().Servers[0]; st.Tunnels != 0 || pool.InUse != 0 || pool.Idle != 0 {
		t.Errorf("%+v %+v", st, pool)
	}
}

// A server that streams into upgraded connections without an end does not hold up the drain.
func TestTunnelsOfServersThatGoOn(t *testing.T) {
	t.Parallel()
	const tunnels = 20
	s := start(t, nil, serveRaw(t, func(c net.Conn, _ int) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		_, err := io.WriteString(c, switched)
		for err == nil {
			_, err = io.WriteString(c, "tick ")
			time.Sleep(time.Millisecond)
		}
	}))
	var clients sync.WaitGroup
	for range tunnels {
		c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
		_, _ = io.WriteString(c, upgradeRequest)
		wants(t, c, switched+"tick tick ")
		clients.Go(func() { _, _ = io.Copy(io.Discard, c) })
	}
	s.drain()
	clients.Wait()
}

// After either side has ended its own, the other one's bytes still come through.
func TestHalfClosedTunnels(t *testing.T) {
	t.Parallel()
	s := start(t, nil, serveRaw(t, func(c net.Conn, _ int) {
		in := bufio.NewReader(c)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		_, _ = io.WriteString(c, switched)
		all, _ := io.ReadAll(in)
		_, _ = fmt.Fprintf(c, "%d bytes", len(all))
	}))
	c := rawhttp.DialFrom(t, "127.0.0.1", s.addr).(*net.TCPConn)
	_, _ = io.WriteString(c, upgradeRequest+strings.Repeat("x", 100_000))
	must(t, c.CloseWrite())
	all, err := io.ReadAll(c)
	if err != nil || string(all) != switched+"100000 bytes" {
		t.Errorf("%q %v", all, err)
	}
}

// A drain lets uploads and downloads that have begun come to their end, and says that the
// connection ends with the answer.
func TestDrain(t *testing.T) {
	t.Parallel()
	release, asked := make(chan struct{}), make(chan struct{}, 100)
	var draining sync.WaitGroup
	s := start(t, nil, serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/down":
			_, _ = w.Write(bytes.Repeat([]byte("x"), 100_000))
			w.(http.Flusher).Flush()
			asked <- struct{}{}
			<-release
			_, _ = w.Write(bytes.Repeat([]byte("y"), 100_000))
		case "/slow":
			asked <- struct{}{}
			<-release
			_, _ = io.WriteString(w, strings.Repeat("z", 200_000))
		default:
			buf := make([]byte, 1)
			_, _ = io.ReadFull(r.Body, buf)
			asked <- struct{}{}
			n, err := io.Copy(io.Discard, r.Body)
			if err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, strings.Repeat("z", int(n+1)))
		}
	}))
	const each = 10
	var clients sync.WaitGroup
	for i := range 3 * each {
		c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
		path := []string{"/down", "/slow", "/up"}[i%3]
		if path == "/up" {
			_, _ = io.WriteString(c, "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n"+strings.Repeat("u", 100_000))
		} else {
			_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
		}
		clients.Go(func() {
			if path == "/up" {
				<-release
				_, _ = io.WriteString(c, strings.Repeat("u", 100_000))
			}
			in := bufio.NewReader(c)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				return
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || len(body) != 200_000 || path != "/down" && !resp.Close {
				t.Errorf("%s: %d bytes, %v, closes: %v", path, len(body), err, resp.Close)
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("%s: the connection goes on: %v", path, err)
			}
		})
		<-asked
	}
	draining.Go(s.drain)
	rawhttp.Eventually(t, func() bool {
		c, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(release)
	clients.Wait()
	draining.Wait()
	if pool := s.pool.Stats().Servers[0]; pool.InUse != 0 || pool.Idle != 0 || pool.Failures != 0 {
		t.Errorf("%+v", pool)
	}
}
