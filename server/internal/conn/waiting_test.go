package conn

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"
)

// hidden is a connection of which nothing is known but that it is one: it has no socket to
// be watched.
type hidden struct{ net.Conn }

func (h hidden) CloseWrite() error { return h.Conn.(*net.TCPConn).CloseWrite() }

// queue is a listener whose requests for /wait wait until they are called, or their ctx ends.
type queue struct {
	*Conns
	addr   string
	called chan struct{}

	mu   sync.Mutex
	seen []string // targets of requests that were decided: with ! in front if their clients had left
	now  int      // how many wait
	ever int      // how many have waited, or do
}

func (q *queue) decide(c *Conn, target string) {
	if strings.HasPrefix(target, "/wait") {
		ctx := c.BeginWait()
		q.add(1)
		select {
		case <-q.called:
		case <-ctx.Done():
			target = "!" + target
		}
		q.add(-1)
		c.EndWait()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seen = append(q.seen, target)
}

func (q *queue) add(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now += n
	q.ever += max(n, 0)
}

func (q *queue) waiting(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.now == n
	})
}

func (q *queue) all() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return strings.Join(q.seen, " ")
}

// newQueue serves connections as the system has them or, hidden, by fasthttp and without a
// socket.
func newQueue(t *testing.T, hide bool) *queue {
	t.Helper()
	q := &queue{Conns: newConns(1000, 1000), called: make(chan struct{}, 100)}
	h := Handlers{
		Answer: func(dst []byte, c *Conn, h *Head) (out []byte, last, ok bool) {
			c.BeginRequest()
			q.decide(c, string(h.Target))
			return append(dst, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"...), c.LastRequest(), true
		},
		Request: func(ctx *fasthttp.RequestCtx) {
			c := Of(ctx)
			c.BeginRequest()
			q.decide(c, string(ctx.RequestURI()))
			if c.LastRequest() {
				ctx.SetConnectionClose()
			}
		},
		ParseError: func(ctx *fasthttp.RequestCtx, err error) {
			if Of(ctx).Unparsed(err) != nil {
				ctx.SetStatusCode(400)
			}
		},
	}
	l := NewListener(q.Conns, Options{}, h)
	ln, err := Listen("listen", "127.0.0.1:0", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	q.addr = ln.Addr().String()
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			if hide {
				nc = hidden{nc}
			}
			all.Go(func() { l.ServeConn(nc) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		q.CloseAll()
		all.Wait()
		q.Close()
	})
	return q
}

func target(t string) string { return "GET " + t + " HTTP/1.1\r\nHost: a\r\n\r\n" }

// Both ways of noticing that a client leaves end its wait, at once if it has left already, and what it had
// sent behind is served; one that stays keeps its slot and everything it sends.
func TestWaitIsWatched(t *testing.T) {
	t.Parallel()
	for _, hide := range []bool{false, true} {
		t.Run(fmt.Sprint(hide), func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, hide)
			stays := dialFrom(t, "127.0.0.1", q.addr)
			io.WriteString(stays, target("/before")+target("/wait")+target("/behind"))
			q.waiting(t, 1)
			long := strings.Repeat("x", 2000)
			io.WriteString(stays, target("/later?"+long))
			leaves := dialFrom(t, "127.0.0.2", q.addr)
			io.WriteString(leaves, target("/wait1")+target("/behind1"))
			q.waiting(t, 2)
			leaves.(*net.TCPConn).CloseWrite()
			if b, err := io.ReadAll(leaves); err != nil || strings.Count(string(b), "200 OK") != 2 {
				t.Errorf("%q, %v", b, err)
			}
			gone := dialFrom(t, "127.0.0.3", q.addr)
			io.WriteString(gone, target("/wait2"))
			q.waiting(t, 2)
			gone.(*net.TCPConn).SetLinger(0)
			gone.Close()
			q.waiting(t, 1)
			early := dialFrom(t, "127.0.0.4", q.addr)
			io.WriteString(early, target("/wait3"))
			early.(*net.TCPConn).CloseWrite()
			if b, err := io.ReadAll(early); err != nil || strings.Count(string(b), "200 OK") != 1 {
				t.Errorf("%q, %v", b, err)
			}
			q.called <- struct{}{}
			io.WriteString(stays, target("/last"))
			stays.(*net.TCPConn).CloseWrite()
			if b, err := io.ReadAll(stays); err != nil || strings.Count(string(b), "200 OK") != 5 {
				t.Errorf("%q, %v", b, err)
			}
			want := "/before !/wait1 /behind1 !/wait2 !/wait3 /wait /behind /later?" + long + " /last"
			if got := q.all(); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			eventually(t, func() bool { return q.Open() == 0 })
		})
	}
}

// All bytes that come while a request waits are read by the next ones, in order, however they
// are cut.
func TestBytesBehindAWait(t *testing.T) {
	t.Parallel()
	for _, hide := range []bool{false, true} {
		q := newQueue(t, hide)
		stream, want := "", ""
		for i := range 40 {
			path := fmt.Sprintf("/%d-%s", i, strings.Repeat("y", i*10))
			if i%8 == 0 {
				path = fmt.Sprintf("/wait%d", i)
			}
			stream, want = stream+target(path), want+" "+path
		}
		for how := range 6 {
			nc := dialFrom(t, "127.0.0.1", q.addr)
			go func() {
				for _, piece := range cut(stream, how) {
					if _, err := nc.Write(piece); err != nil {
						return
					}
				}
			}()
			for i := range 5 {
				eventually(t, func() bool {
					q.mu.Lock()
					defer q.mu.Unlock()
					return q.ever == 5*how+i+1
				})
				q.called <- struct{}{}
			}
			eventually(t, func() bool { return strings.Count(q.all(), " ") == 40*how+39 })
			nc.Close()
		}
		if got := " " + q.all(); got != strings.Repeat(want, 6) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

var _ interface {
	BeginWait() context.Context
	EndWait()
} = (*Conn)(nil) // as package fastlimit wants it
