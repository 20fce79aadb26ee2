package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A change of upstream applies to the next request: one that has a connection keeps it, however long its
// answer takes. Counts continue.
func TestReloadUpstream(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	server := func(name string) string {
		app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-App", name)
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			if r.URL.Path == "/slow" {
				<-hold
			}
			io.WriteString(w, "body")
		}))
		t.Cleanup(app.Close)
		return app.URL
	}
	a, b := server("a"), server("b")
	s := start(t, generous(), func(c *Config) { c.Upstream = &Upstream{URLs: []string{a}} })
	slow := dial(t, s.addr)
	defer slow.Close()
	io.WriteString(slow, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil || resp.Header.Get("X-App") != "a" {
		t.Fatal(resp, err)
	}
	fast := dial(t, s.addr)
	defer fast.Close()
	if got := askOver(t, fast, "/").Header.Get("X-App"); got != "a" {
		t.Errorf("from %q", got)
	}
	s.reload(t, generous(), func(c *Config) { c.Upstream = &Upstream{URLs: []string{b}, ResponseTimeout: time.Minute} })
	if got := askOver(t, fast, "/").Header.Get("X-App"); got != "b" {
		t.Errorf("after the reload from %q", got)
	}
	close(hold)
	if body := string(readAll(t, resp)); body != "body" {
		t.Errorf("the answer of the old one ends with %q", body)
	}
	requests := func() (n uint64) {
		for _, srv := range s.pools.Stats().Servers {
			n += srv.Requests
		}
		return n
	}
	eventually(t, func() bool { s.pools.EndSecond(); return s.pools.Stats().Servers[0].InUse == 0 })
	if n := requests(); n != 3 {
		t.Errorf("%d requests are counted, want 3: %+v", n, s.pools.Stats())
	}
	// The same settings keep the pool.
	pool := s.pools.Current()
	s.reload(t, generous(), func(c *Config) { c.Upstream = &Upstream{URLs: []string{b}, ResponseTimeout: time.Minute} })
	if s.pools.Current() != pool {
		t.Error("a pool with the same settings was replaced")
	}
}

// A hundred reloads under load, each with other listeners next to one that stays: no request is lost, and
// nothing is left behind.
func TestReloadsLoseNothing(t *testing.T) {
	t.Parallel()
	s := start(t, generous(), func(c *Config) { c.Drain.Timeout = 5 * time.Second })
	reloads := 100
	if testing.Short() {
		reloads = 10
	}
	var load sync.WaitGroup
	var done atomic.Bool
	var sent atomic.Int64
	lost := make(chan error, 100)
	for w := range 4 {
		load.Go(func() {
			var c net.Conn
			var br *bufio.Reader
			for n := 0; !done.Load(); n++ {
				if c == nil {
					var err error
					if c, err = net.Dial("tcp", s.addr); err != nil {
						lost <- err
						return
					}
					_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
					br = bufio.NewReader(c)
				}
				last := ""
				if w%2 == 0 && n%5 == 4 {
					last = "Connection: close\r\n"
				}
				fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", last)
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					lost <- err
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				sent.Add(1)
				if resp.Close {
					c.Close()
					c = nil
				}
			}
			if c != nil {
				c.Close()
			}
		})
	}
	for i := range reloads {
		s.reload(t, generous(), func(c *Config) {
			c.Listeners[0].DenyStatus = 420 + i%3
			c.Listeners = c.Listeners[:1]
			for range i % 3 {
				c.Listeners = append(c.Listeners, Listener{Address: "127.0.0.1:0"})
			}
			c.Drain.Timeout = 5 * time.Second
			c.Connections.IdleTimeout = time.Duration(60+i%2) * time.Second
		})
		if addrs := s.Addrs(); i%3 > 0 {
			c := dial(t, addrs[len(addrs)-1].String())
			askOver(t, c, "/")
			c.Close()
		}
	}
	done.Store(true)
	load.Wait()
	close(lost)
	for err := range lost {
		t.Errorf("a request is lost: %v", err)
	}
	if n := sent.Load(); n < int64(reloads) {
		t.Errorf("%d requests during %d reloads", n, reloads)
	}
	eventually(t, func() bool { return s.conns.Open() == 0 })
	if n := len(s.state.Load().places); n > 3 {
		t.Errorf("%d places after listeners came and went", n)
	}
	eventually(t, func() bool {
		buf := make([]byte, 1<<20)
		return strings.Count(string(buf[:runtime.Stack(buf, true)]), "retire") == 0
	})
}
