//go:build linux && (amd64 || arm64)

package conn

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const simple = "GET /g HTTP/1.1\r\nHost: a\r\n\r\n"

// each calls f for all connections.
func (c *Conns) each(f func(*Conn)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range c.all.members {
		f(cn)
	}
}

// A decision may wait for a shared store. Cutting the connections does not wait for
// it: it holds the lock that sweeps and newcomers need.
func TestCloseAllDoesNotWaitForDecisions(t *testing.T) {
	t.Parallel()
	asked, decided := make(chan struct{}), make(chan struct{})
	conns := newConns(10, 10)
	l := NewListener(conns, Options{}, Handlers{Answer: func(dst []byte, c *Conn, _ *Head) ([]byte, bool, bool) {
		c.BeginRequest()
		close(asked)
		<-decided
		return append(dst, "HTTP/1.1 200 OK\r\n\r\n"...), true, true
	}})
	if err := l.Bind("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	go l.Accept()
	defer l.Close(time.Now())
	io.WriteString(dialFrom(t, "127.0.0.1", l.Addr().String()), simple)
	<-asked
	var cut atomic.Int32
	go func() { cut.Store(int32(conns.CloseAll())) }()
	eventually(t, func() bool { return cut.Load() == 1 && conns.Open() == 1 })
	close(decided)
	if !conns.EmptyWithin(10 * time.Second) {
		t.Error("the connection does not end")
	}
}

// What fasthttp has read again is not kept.
func TestReplayIsReleased(t *testing.T) {
	t.Parallel()
	c, _ := pairOf(t)
	c.in.replay = []byte("GET / H")
	buf := make([]byte, 4)
	if n, err := c.Read(buf); n != 4 || err != nil || string(c.in.replay) != "/ H" {
		t.Fatal(n, err, c.in.replay)
	}
	if n, err := c.Read(buf); n != 3 || err != nil || c.in.replay != nil {
		t.Fatal(n, err, c.in.replay)
	}
}

// A deadline that was set for another phase ends a resident that has answered since
// then without a word: the client would take it for the answer to its next request.
func TestOverdueAfterAnAnswer(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	accept()
	nc := dialFrom(t, "127.0.0.1", w.addr)
	if ask(nc) != 200 {
		t.Fatal("no answer")
	}
	w.each(func(c *Conn) { c.interrupt(fresh) })
	if b, err := io.ReadAll(nc); len(b) > 0 || err != nil {
		t.Errorf("%q %v", b, err)
	}
}

// A sweep that sees a FIN while its connection still holds requests, between two turns
// or right after they were read, leaves them their answers: the client has half-closed,
// and waits for them.
func TestFINSeenBeforeItsRequests(t *testing.T) {
	t.Parallel()
	const later = 20
	odd := "POST /odd HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
	for _, c := range []struct {
		at     int // the request before whose answer the sweep comes
		stream string
		want   string
	}{
		{1, strings.Repeat(simple, later), "/ " + strings.Repeat("/g ", later)},
		{maxPerStep + 1, strings.Repeat(simple, later), "/ " + strings.Repeat("/g ", later)},
		{1, simple + odd + simple, "/ /g */odd(hello,<nil>) */g "},
		{1, simple + odd[:len(odd)-1], "/ /g */odd(hell,<nil>) "}, // as without the sweep
	} {
		w, accept := newWays(t)
		answer, n := w.listener.answer, 0
		w.listener.answer = func(dst []byte, cn *Conn, h *Head) ([]byte, bool, bool) {
			if n++; n == 1+c.at {
				eventually(t, func() bool { return finWaits(cn.Conn) })
				w.sweep()
				w.lookAtQuiet()
			}
			return answer(dst, cn, h)
		}
		accept()
		nc := dialFrom(t, "127.0.0.1", w.addr)
		if ask(nc) != 200 {
			t.Fatal("no answer")
		}
		io.WriteString(nc, c.stream)
		nc.(*net.TCPConn).CloseWrite()
		b, err := io.ReadAll(nc)
		if got := w.all() + " "; got != c.want || err != nil || strings.Count(string(b), " 200 ") != len(strings.Fields(c.want))-1 {
			t.Errorf("at %d: %s, want %s; %v\n%s", c.at, got, c.want, err, b)
		}
		eventually(t, func() bool { return w.Open() == 0 })
	}
}

// Wherever a dismissal or a timeout falls, on parked connections too, each request that was
// answered has exactly one answer, and each connection ends.
func TestDismissedAtAnyPoint(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	accept()
	const clients, requests = 8, 300
	var answers atomic.Int32
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for i := range clients {
		wait.Go(func() {
			for n := 0; n < requests; {
				nc, err := net.Dial("tcp", w.addr)
				if err != nil {
					t.Error(err)
					return
				}
				br := bufio.NewReader(nc)
				many := 1 + i%3 // pipelined
				for n < requests {
					n += many
					if _, err := io.WriteString(nc, strings.Repeat(simple, many)); err != nil {
						break
					}
					if !answered(br, many, &answers) {
						break
					}
				}
				nc.Close()
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if i%2 == 0 {
				w.DismissQuiet(true)
			} else {
				w.each(func(c *Conn) {
					if i%4 == 1 {
						c.dismiss()
					} else if c.phase() == fresh {
						c.interrupt(fresh)
					}
				})
			}
			w.each(func(c *Conn) {
				if i%3 > 0 && c.phase() == idle {
					w.orderPark(c)
				}
			})
			time.Sleep(100 * time.Microsecond)
		}
	}()
	wait.Wait()
	close(stop)
	<-ended
	eventually(t, func() bool { return w.Open() == 0 })
	if asked := len(strings.Fields(w.all())); asked != int(answers.Load()) {
		t.Errorf("%d requests were served, %d answers came", asked, answers.Load())
	}
}

// answered reads answers, and reports whether there were as many as were asked for.
func answered(br *bufio.Reader, many int, answers *atomic.Int32) bool {
	for range many {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			return false
		}
		if resp.StatusCode == 200 {
			answers.Add(1)
		}
	}
	return true
}

// Clients reset their connections wherever they are; nothing stays.
func TestResetsLeaveNothing(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	accept()
	streams := []string{"", simple, simple[:7], simple + simple[:7], strings.Repeat(simple, 100), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhell"}
	for i := range 600 {
		nc := dialFrom(t, "127.0.0.1", w.addr)
		_ = nc.(*net.TCPConn).SetLinger(0) // Close resets it
		stream := streams[i%len(streams)]
		io.WriteString(nc, stream)
		if i%4 == 0 && strings.HasPrefix(stream, simple) {
			_, _ = nc.Read(make([]byte, 1))
		}
		nc.Close()
	}
	eventually(t, func() bool { return w.Open() == 0 })
}

// Thousands of idle residents end at once when dismissed.
func TestManyIdleEnd(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	accept()
	const many = 2000
	var all []net.Conn
	for range many {
		nc := dialFrom(t, "127.0.0.1", w.addr)
		if ask(nc) != 200 {
			t.Fatal("no answer")
		}
		all = append(all, nc)
	}
	eventually(t, w.allWait)
	w.LastAnswers()
	if n := w.DismissQuiet(true); n != many || !w.EmptyWithin(10*time.Second) {
		t.Errorf("%d were open, %d stay", n, w.Open())
	}
	for _, nc := range all {
		if b, err := io.ReadAll(nc); len(b) > 0 || err != nil {
			t.Fatalf("%q %v", b, err)
		}
	}
}
