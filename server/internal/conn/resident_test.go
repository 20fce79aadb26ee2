//go:build linux && (amd64 || arm64)

package conn

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"
)

// ways counts which way requests were answered, and by whom.
type ways struct {
	*Conns
	addr     string
	listener *Listener

	mu    sync.Mutex
	order []string // targets of requests, those that fasthttp served with a * before
}

func (w *ways) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order = append(w.order, what)
}

func (w *ways) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.order, " ")
}

// newWays listens, but accepts only on request.
func newWays(t *testing.T) (w *ways, accept func()) {
	w = &ways{Conns: New(Limits{Head: time.Hour, Write: time.Hour, Idle: time.Hour, Max: 5000, PerClient: 5000, HeadBytes: 32 << 10}, discard)}
	return w, w.listen(t, Options{}, Handlers{
		Answer: func(dst []byte, c *Conn, h *Head) ([]byte, bool, bool) {
			if bytes.Contains(h.Target, []byte("odd")) {
				return dst, false, false
			}
			c.BeginRequest()
			w.note(string(h.Target))
			last := c.LastRequest()
			return append(dst, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"...), last, true
		},
		Request: func(ctx *fasthttp.RequestCtx) {
			c := Of(ctx)
			c.BeginRequest()
			what := "*" + string(ctx.RequestURI())
			if s := ctx.RequestBodyStream(); s != nil {
				b, err := io.ReadAll(s)
				what += fmt.Sprintf("(%s,%v)", b, err)
			}
			w.note(what)
			if c.LastRequest() {
				ctx.SetConnectionClose()
			}
		},
	})
}

// listen begins to listen, and returns what accepts.
func (w *ways) listen(t *testing.T, o Options, h Handlers) (accept func()) {
	t.Helper()
	h.ParseError = func(ctx *fasthttp.RequestCtx, err error) {
		if Of(ctx).Unparsed(err) != nil {
			ctx.SetStatusCode(400)
		}
	}
	h.Log = log.New(io.Discard, "", 0)
	l := NewListener(w.Conns, o, h)
	if err := l.Bind("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	w.addr, w.listener = l.Addr().String(), l
	t.Cleanup(func() {
		l.Close(time.Now())
		w.CloseAll()
		if !w.EmptyWithin(10 * time.Second) {
			t.Error("connections do not end")
		}
	})
	return func() { go l.Accept() }
}

// Simple requests are answered by a resident. The first one that is not goes to
// fasthttp, whole, with all that follows it; none is answered twice or lost.
func TestWhatIsSimple(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	accept()
	get := func(target, lines string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n"
	}
	long := "X: " + strings.Repeat("x", 5000) + "\r\n"
	for _, c := range []struct{ stream, want string }{
		{get("/1", "") + get("/2", "Accept: */*\r\nConnection: keep-alive\r\n") + get("/3", "Connection: close\r\n") + get("/4", ""), "/1 /2 /3"},
		{get("/1", "") + "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" + get("/3", ""), "/1 */2(hello,<nil>) */3"},
		{get("/1", "") + "POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + get("/3", ""), "/1 */2(hello,<nil>) */3"},
		{get("/1", "") + get("/2", "Content-Length: 0\r\n") + get("/3", ""), "/1 */2(,<nil>) */3"},
		{get("/1", "") + "HEAD /2 HTTP/1.1\r\nHost: a\r\n\r\n" + get("/3", ""), "/1 */2 */3"},
		{get("/1", "") + "GET /2 HTTP/1.0\r\nHost: a\r\n\r\n" + get("/3", ""), "/1 /2"},
		{get("/1", "") + "GET /2 HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n" + get("/3", ""), "/1 */2 */3"},
		{get("/1", "") + get("/2", "Upgrade: websocket\r\n") + get("/3", ""), "/1 */2 */3"},
		{get("/1", "") + get("/2", "expect: 100-continue\r\n") + get("/3", ""), "/1 */2 */3"},
		{get("/1", "") + get("/odd", "") + get("/3", ""), "/1 */odd */3"},
		{get("/1", "") + "\r\n" + get("/2", ""), "/1 */2"},
		{get("/1", "") + get("/2", long) + get("/3", ""), "/1 */2 */3"},
		{get("/1", "") + get("/2", " folded\r\n") + get("/3", ""), "/1"},
		{get("/1", "") + "GET /2 HTTP/1.1\nHost: a\r\n\r\n" + get("/3", ""), "/1"},
		{get("/1", "") + "GET /2 HTTP/1.1\r\nHo", "/1"},
		{get("/1", "") + "GET /2 HTTP/1.1\r\n\r\n" + get("/3", ""), "/1"},
		{strings.TrimSpace(strings.Repeat(get("/1", "X: "+strings.Repeat("x", 3000)+"\r\n"), 20)) + "\r\n\r\n", strings.TrimSpace(strings.Repeat("/1 ", 20))},
	} {
		w.mu.Lock()
		w.order = nil
		w.mu.Unlock()
		nc := dialFrom(t, "127.0.0.1", w.addr)
		io.WriteString(nc, c.stream)
		nc.(*net.TCPConn).CloseWrite()
		answers, err := io.ReadAll(nc)
		if got := w.all(); got != c.want || err != nil || strings.Count(string(answers), " 200 ") != len(strings.Fields(c.want)) {
			t.Errorf("%.60q: %s, want %s; %v\n%s", c.stream, got, c.want, err, answers)
		}
	}
}

// Clients send requests and a FIN in one segment. The poller says so once. The FIN is
// taken at once behind a first request and behind pipelined ones, and by a sweep behind
// a later one, also if that is the second within a tick.
func TestFINWithTheRequest(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	accept()
	ends := func(stream string, earlier int) net.Conn {
		nc := dialFrom(t, "127.0.0.1", w.addr)
		for range earlier {
			if ask(nc) != 200 {
				t.Fatal("no answer")
			}
		}
		raw, err := nc.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 1) })
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(nc, stream)
		nc.(*net.TCPConn).CloseWrite()
		return nc
	}
	whole := func(nc net.Conn, answers int) {
		if b, err := io.ReadAll(nc); err != nil || strings.Count(string(b), "200 OK") != answers {
			t.Fatalf("%q %v", b, err)
		}
	}
	const clients = 300
	for range clients {
		whole(ends(simple, 0), 1)
		whole(ends(simple+simple, 1), 2)
	}
	var later []net.Conn
	for i := range clients {
		later = append(later, ends(simple, 1+i%2))
	}
	eventually(t, func() bool { return len(strings.Fields(w.all())) == clients*(1+3+1)+clients/2+clients && w.allWait() })
	w.lookAtQuiet() // too early: another request could follow in this tick
	w.each(func(c *Conn) {
		if c.orders.leave.Load() {
			t.Error("a connection ends in the tick of its request")
		}
	})
	w.sweep()
	w.lookAtQuiet()
	for _, nc := range later {
		whole(nc, 1)
	}
	eventually(t, func() bool { return w.Open() == 0 })
}

// A client that pipelines does not keep others from their answers: they have a turn
// after maxPerStep of its requests.
func TestPipeliningStarvesNobody(t *testing.T) {
	const many = 1000
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	// Who is served first is up to the scheduler, which the race detector makes random:
	// only a round in which the greedy client was first says something.
	for range 50 {
		w, accept := newWays(t)
		other, greedy := dialFrom(t, "127.0.0.2", w.addr), dialFrom(t, "127.0.0.1", w.addr)
		io.WriteString(greedy, strings.Repeat("GET /g HTTP/1.1\r\nHost: a\r\n\r\n", many))
		io.WriteString(other, "GET /other HTTP/1.1\r\nHost: a\r\n\r\n")
		accept()
		eventually(t, func() bool { return len(strings.Fields(w.all())) == many+1 })
		other.Close()
		greedy.Close()
		switch at := strings.Count(strings.Split(w.all(), "/other")[0], "/g"); {
		case at > many/2:
			t.Fatalf("the other client was answered after %d requests of %d", at, many)
		case at > 0:
			return
		}
	}
	t.Error("the greedy client was never first")
}

// Answers are sent before they are many bytes, however many requests came at once.
func TestUnsentIsBounded(t *testing.T) {
	t.Parallel()
	const size, many = 5000, 100
	answer := "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("x", size)
	var most, turns atomic.Int64
	l := NewListener(newConns(10, 10), Options{}, Handlers{Answer: func(dst []byte, c *Conn, _ *Head) ([]byte, bool, bool) {
		c.BeginRequest()
		most.Store(max(most.Load(), int64(len(dst))))
		if len(dst) > 0 {
			turns.Add(1)
		}
		return append(dst, answer...), c.LastRequest(), true
	}})
	if err := l.Bind("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	go l.Accept()
	defer l.Close(time.Now())
	nc := dialFrom(t, "127.0.0.1", l.Addr().String())
	go io.WriteString(nc, strings.Repeat(simple, many-1)+"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if b, err := io.ReadAll(nc); err != nil || strings.Count(string(b), "200 OK") != many {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if got := most.Load(); got >= maxUnsent || turns.Load() == 0 {
		t.Errorf("%d bytes of answers were unsent when another was added; %d times some were", got, turns.Load())
	}
}

// A client that does not take its answers is not read from either, and ends in time.
func TestAnswersThatNobodyTakes(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	accept()
	nc := dialFrom(t, "127.0.0.1", w.addr)
	nc.(*net.TCPConn).SetReadBuffer(4096)
	nc.(*net.TCPConn).SetWriteBuffer(4096)
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for {
			if _, err := io.WriteString(nc, strings.Repeat("GET /g HTTP/1.1\r\nHost: a\r\n\r\n", 100)); err != nil {
				return
			}
		}
	}()
	var was int
	eventually(t, func() bool { // it stands still
		n := len(w.all())
		defer func() { was = n; time.Sleep(50 * time.Millisecond) }()
		return n > 0 && n == was
	})
	w.mu.Lock()
	n := len(w.order)
	w.mu.Unlock()
	for range 3 * int(time.Hour/w.period) { // the write timeout
		w.sweep()
	}
	eventually(t, func() bool { return w.Open() == 0 })
	nc.Close()
	<-stop
	if after := len(strings.Fields(w.all())); after > n+2*maxPerStep {
		t.Errorf("%d requests were answered after it stood still", after-n)
	}
}
