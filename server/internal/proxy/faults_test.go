package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
)

// echo answers with the path, in a server that is made of a handler of connections.
func echo(c net.Conn, _ int) {
	for in := bufio.NewReader(c); ; {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Marker: %s\r\nContent-Length: %d\r\n\r\n%s", req.URL.Path, len(req.URL.Path), req.URL.Path)
	}
}

// descriptors are how many files and sockets this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(all)
}

// A server that is away gives 502 at once and for as long as it is; then everything recovers, and nothing is
// left open. Not parallel: it counts descriptors.
func TestDownAndBack(t *testing.T) {
	before := descriptors(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := ln.Addr().String()
	ln.Close()
	s := start(t, nil, addr)
	k := &talker{t: t, addr: s.addr}
	const tries = 10
	for i := range tries {
		method, more := "GET", ""
		if i%2 == 1 {
			method, more = "POST", "Content-Length: 2\r\n\r\nok"
		}
		resp, body, err := k.ask(method, "/a", strings.TrimSuffix(more, "\r\n"))
		if err != nil || resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "cannot be reached") {
			t.Fatalf("%v %q %v", resp, body, err)
		}
		k.discard()
	}
	st, pool := s.Stats(), s.pool.Stats().Servers[0]
	if st.Failures["connect"] != tries || pool.DialErrors["refused"] != tries || pool.Dials != tries || !pool.Ejected || pool.Ejections != 1 || pool.InUse != 0 {
		t.Errorf("%+v %+v", st, pool)
	}
	ln, err = net.Listen("tcp", addr)
	must(t, err)
	done := make(chan struct{})
	var conns sync.WaitGroup
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { echo(c, 0); c.Close() })
		}
	}()
	for i := range 5 {
		k.good(fmt.Sprintf("/back%d", i))
	}
	if pool := s.pool.Stats().Servers[0]; pool.Ejected || pool.Dials != tries+1 {
		t.Errorf("%+v", pool)
	}
	if n := s.service.Requests(); n.Allowed != tries+5 || n.Denied != 0 {
		t.Errorf("%+v", n)
	}
	k.discard()
	s.drain()
	ln.Close()
	<-done
	conns.Wait()
	rawhttp.Eventually(t, func() bool { return descriptors(t) <= before+1 }) // an epoll instance of package conn, or of Go
}

// Of several servers, one that is away costs no request; nor does one that dies between two.
func TestOneOfSeveral(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ln.Close()
	var dying atomic.Uint64
	s := start(t, nil, ln.Addr().String(), serveRaw(t, echo), serveRaw(t, func(c net.Conn, n int) {
		req, err := http.ReadRequest(bufio.NewReader(c)) // one answer each, without a word of the end
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		dying.Add(1)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Marker: %s\r\nContent-Length: %d\r\n\r\n%s", req.URL.Path, len(req.URL.Path), req.URL.Path)
	}))
	k := &talker{t: t, addr: s.addr}
	for i := range 100 {
		path := fmt.Sprintf("/a%d", i)
		if i%2 == 0 {
			k.good(path)
			continue
		}
		resp, body, err := k.ask("PUT", path, "Content-Length: 0\r\n")
		if err != nil || resp.StatusCode != 200 || body != path {
			t.Fatalf("%v %q %v", resp, body, err)
		}
	}
	if st := s.Stats(); st.Answers["2xx"] != 100 || dying.Load() < 20 {
		t.Errorf("%+v, %d by the server that dies", st, dying.Load())
	}
}

// blocking is a server whose answers wait for release.
func blocking(t testing.TB) (addr string, asked chan struct{}, ended *atomic.Int64, release func()) {
	asked, ended = make(chan struct{}, 100), new(atomic.Int64)
	free := make(chan struct{})
	release = sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	return serveRaw(t, func(c net.Conn, _ int) {
		defer ended.Add(1)
		gone := make(chan struct{})
		requests := make(chan *http.Request, 10)
		go func() {
			defer close(gone)
			for in := bufio.NewReader(c); ; {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return
				}
				requests <- req
			}
		}()
		for {
			select {
			case <-gone:
				return
			case req := <-requests:
				asked <- struct{}{}
				select {
				case <-gone:
					return
				case <-free:
				}
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Marker: %s\r\nContent-Length: %d\r\n\r\n%s", req.URL.Path, len(req.URL.Path), req.URL.Path)
			}
		}
	}), asked, ended, release
}

// A request that waits for a connection too long gets 503 with Retry-After, which is neither a denial nor a
// failure of the server.
func TestQueueTimeout(t *testing.T) {
	t.Parallel()
	addr, asked, _, release := blocking(t)
	s := start(t, func(o *standOptions) { o.pool.MaxConnections, o.pool.QueueTimeout = 1, 50*time.Millisecond }, addr)
	var first sync.WaitGroup
	first.Go(func() { (&talker{t: t, addr: s.addr}).good("/first") })
	<-asked
	k := &talker{t: t, addr: s.addr}
	k.busy("GET")
	k.busy("POST")
	release()
	first.Wait()
	k.good("/after")
	st, pool := s.Stats(), s.pool.Stats()
	if n := s.service.Requests(); n.Denied != 0 || n.Allowed != 4 {
		t.Errorf("%+v", n)
	}
	if st.Failures["busy"] != 2 || pool.TimedOut != 2 || pool.Full != 0 || pool.Queue != 0 || pool.Servers[0].Failures != 0 {
		t.Errorf("%+v %+v", st, pool)
	}
}

// As many wait as may, and get their answers; further ones get 503 at once.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	for _, most := range []int{-1, 3} {
		addr, asked, _, release := blocking(t)
		s := start(t, func(o *standOptions) {
			o.pool.MaxConnections, o.pool.MaxQueue, o.pool.QueueTimeout = 1, most, time.Minute
		}, addr)
		var waiting sync.WaitGroup
		waiting.Go(func() { (&talker{t: t, addr: s.addr}).good("/first") })
		<-asked
		for i := range max(0, most) {
			waiting.Go(func() { (&talker{t: t, addr: s.addr}).good(fmt.Sprintf("/%d", i)) })
		}
		rawhttp.Eventually(t, func() bool { return s.pool.Stats().Queue == max(0, most) })
		k := &talker{t: t, addr: s.addr}
		for range 10 {
			k.busy("GET")
		}
		release()
		waiting.Wait()
		if st, pool := s.Stats(), s.pool.Stats(); st.Failures["busy"] != 10 || pool.Full != 10 || st.Answers["2xx"] != uint64(1+max(0, most)) {
			t.Errorf("%+v %+v", st, pool)
		}
	}
}
