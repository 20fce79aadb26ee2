//go:build linux && (amd64 || arm64)

package conn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"
)

// newDoor listens, and answers at the door what does not contain "later". Its answers name their source: the
// door, a resident, or fasthttp.
func newDoor(t *testing.T, limits Limits, change ...func(*Options)) *ways {
	t.Helper()
	w, accept := stoppedDoor(t, limits, change...)
	if w.listener.options.Load().DeferAccept { // for longer than a machine may stall
		if err := control(w.listener.ln.Listener, func(fd int) error {
			return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 60)
		}); err != nil {
			t.Fatal(err)
		}
	}
	accept()
	return w
}

// stoppedDoor is newDoor that accepts on request.
func stoppedDoor(t *testing.T, limits Limits, change ...func(*Options)) (w *ways, accept func()) {
	t.Helper()
	limits.Head, limits.Write, limits.Idle = time.Hour, time.Hour, time.Hour
	limits.HeadBytes, limits.PerClient = 32<<10, max(1, limits.PerClient)
	w = &ways{Conns: New(limits, discard)}
	var o Options
	for _, f := range change {
		f(&o)
	}
	return w, w.listen(t, o, w.atDoors())
}

// atDoors are the handlers of newDoor.
func (w *ways) atDoors() Handlers {
	answer := func(by string) func(dst []byte, c *Conn, h *Head) ([]byte, bool, bool) {
		return func(dst []byte, c *Conn, h *Head) ([]byte, bool, bool) {
			if bytes.Contains(h.Target, []byte("odd")) || by == "door" && bytes.Contains(h.Target, []byte("later")) {
				return dst, false, false
			}
			c.BeginRequest()
			last, body := c.LastRequest(), by
			switch string(h.Target) {
			case denyPath:
				last = c.Denied() || last
			case "/reset":
				c.Reset()
			case "/unread":
				c.LeaveUnread()
			case "/large":
				body = strings.Repeat("x", largeBody)
			}
			w.note(by + string(h.Target))
			return append(dst, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)...), last, true
		}
	}
	return Handlers{
		Answer: answer("resident"), AnswerNow: answer("door"),
		Request: func(ctx *fasthttp.RequestCtx) {
			c := Of(ctx)
			c.BeginRequest()
			w.note("fasthttp" + string(ctx.RequestURI()))
			ctx.SetBodyString("fasthttp")
			if c.LastRequest() {
				ctx.SetConnectionClose()
			}
		},
	}
}

// largeBody is more than the socket of a new connection takes at once.
const largeBody = 8 << 20

func closing(target string) string {
	return "GET " + target + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
}

// talk sends pieces and returns what comes back until the connection ends.
func talk(t *testing.T, addr string, pieces ...string) (got string, err error) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	for i, p := range pieces {
		if i > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		_, _ = io.WriteString(c, p)
	}
	all, err := io.ReadAll(c)
	return string(all), err
}

// deferred has connections come to the door with their requests.
func deferred(o *Options) { o.DeferAccept = true }

// One whole simple request that asks to close is answered at the door; all else as if nobody had
// looked, from the first byte on.
func TestWhoAnswersAtTheDoor(t *testing.T) {
	t.Parallel()
	get := "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, c := range []struct{ name, stream, want string }{
		{"closing", closing("/1"), "door/1"},
		{"half a head", "GET /1 HTTP/1.1\r\nHo", ""},
		{"kept", get + closing("/2"), "resident/1 resident/2"},
		{"two", closing("/1") + get, "resident/1"},
		{"stays", get, "door/1"},
		{"denied, and stays", "GET /deny HTTP/1.1\r\nHost: a\r\n\r\n", "door/deny"},
		{"old", "GET /1 HTTP/1.0\r\n\r\n", "door/1"},
		{"may wait", closing("/later"), "resident/later"},
		{"odd", closing("/odd"), "fasthttp/odd"},
		{"a body", "POST /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", "fasthttp/1"},
		{"no Host", "GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n", ""},
		{"no HTTP", "PROXY TCP4 1.2.3.4 1.2.3.4 1 1\r\n", ""},
		{"long", "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: " + strings.Repeat("x", 5000) + "\r\n\r\n", "fasthttp/1"},
	} {
		w, accept := stoppedDoor(t, Limits{Max: 100, PerClient: 100})
		nc, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(nc, c.stream)
		nc.(*net.TCPConn).CloseWrite()
		accept() // when all has come
		_ = nc.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(nc); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		nc.Close()
		if got := w.all(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if strings.Contains(c.stream, "GET") && c.want != "" {
			eventually(t, func() bool { atDoor, kept := w.Accepted(); return atDoor+kept == 1 })
		}
	}
}

// A head that comes in pieces is not lost at the door: somebody answers it.
func TestDoorKeepsPieces(t *testing.T) {
	t.Parallel()
	w := newDoor(t, Limits{Max: 100, PerClient: 100})
	for at := range closing("/1") {
		s := closing("/1")
		if got, err := talk(t, w.addr, s[:at], s[at:]); err != nil || !strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Fatalf("cut at %d: %q, %v", at, got, err)
		}
	}
}

// An answer that the socket does not take at once is sent to its end, as are those after which the client may
// keep sending.
func TestLateEndsAtTheDoor(t *testing.T) {
	t.Parallel()
	w := newDoor(t, Limits{Max: 100, PerClient: 100}, deferred)
	if got, err := talk(t, w.addr, closing("/large")); err != nil || strings.Count(got, "x") != largeBody {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, closing("/unread"))
	eventually(t, func() bool { return strings.HasSuffix(w.all(), "door/unread") }) // else the door sees that more follows
	_, _ = io.WriteString(c, strings.Repeat("x", 100<<10))
	if got, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(got), "door") {
		t.Errorf("%.100q, %v", got, err)
	}
	c.Close()
	if got := w.all(); got != "door/large door/unread" {
		t.Error(got)
	}
	eventually(t, func() bool { return w.Open() == 0 })
}

// A connection that is reset while it is at the door gets no answer, and neither does one whose
// peer the kernel drops.
func TestResetsAtTheDoor(t *testing.T) {
	t.Parallel()
	var held atomic.Bool
	w := newDoor(t, Limits{Max: 100, PerClient: 100, Held: func(netip.Addr) bool { return held.Load() }}, deferred)
	for i, target := range []string{"/reset", "/1"} {
		if got, err := talk(t, w.addr, closing(target)); got != "" || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %q, %v", target, got, err)
		}
		if n := w.Resets(); n != uint64(i)+1 {
			t.Errorf("%s: %d resets", target, n)
		}
		held.Store(true)
	}
	if got := w.all(); got != "door/reset" {
		t.Error(got)
	}
}

// Where all connections are in use the door still answers.
func TestDoorNeedsNoPlace(t *testing.T) {
	t.Parallel()
	w := newDoor(t, Limits{Max: 1, PerClient: 1}, deferred)
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET /stays HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, err := c.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if got, err := talk(t, w.addr, closing("/1")); err != nil || !strings.HasSuffix(got, "door") {
			t.Fatalf("%q, %v", got, err)
		}
	}
	eventually(t, func() bool { return w.Open() == 1 })
	if n := w.Dismissed()["client"]; n != 0 {
		t.Errorf("%d dismissed", n)
	}
}

// Each connection is answered once, by whichever door takes it, as is what is in the queue when the listener
// drains.
func TestDoorsTakeAll(t *testing.T) {
	t.Parallel()
	w := newDoor(t, Limits{Max: 5000, PerClient: 5000}, deferred)
	n := testkit.Size(500, 5000)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for i := range n / 8 {
				target := [...]string{"/1", "/later", "/odd"}[i%3]
				if got, err := talk(t, w.addr, closing(target)); err != nil || !strings.HasPrefix(got, "HTTP/1.1 200") {
					t.Errorf("%s: %q, %v", target, got, err)
					return
				}
			}
		})
	}
	wait.Wait()
	if got := strings.Count(w.all(), "/"); got != n/8*8 {
		t.Errorf("%d answers to %d requests", got, n/8*8)
	}
}

// A denied client that stays continues to be served; nobody is denied twice for one request.
func TestDeniedAtTheDoor(t *testing.T) {
	t.Parallel()
	w := newDoor(t, Limits{Max: 500, PerClient: 500}, deferred)
	for range 2 * maxResting {
		c := dialFrom(t, "127.0.0.1", w.addr)
		defer c.Close()
		for range 3 {
			if got := askFor(c, denyPath); got != 200 {
				t.Fatal(got)
			}
		}
	}
	all := w.all()
	if got := strings.Count(all, "door"); got != 2*maxResting || strings.Count(all, "resident") != 2*got || w.Open() != got {
		t.Errorf("%d at the door, %d by residents, %d open", got, strings.Count(all, "resident"), w.Open())
	}
}

// Clients that leave with their denial take no slot, and those that stay do, even if the listener ends right
// after them.
func TestWhoRestsAtTheDoor(t *testing.T) {
	t.Parallel()
	for _, leave := range []bool{true, false} {
		w, accept := stoppedDoor(t, Limits{Max: 500, PerClient: 500})
		const n = 3*maxResting + 1
		for range n {
			c := dialFrom(t, "127.0.0.1", w.addr)
			defer c.Close()
			_, _ = io.WriteString(c, "GET /deny HTTP/1.1\r\nHost: a\r\n\r\n")
			if leave {
				_ = c.(*net.TCPConn).CloseWrite()
			}
		}
		w.listener.Drain()
		accept()
		<-w.listener.accepted
		want := [...]uint64{n, 0, 0}
		if !leave {
			want = [...]uint64{0, n, n}
		}
		atDoor, kept := w.Accepted()
		if got := [...]uint64{atDoor, kept, uint64(w.Open())}; got != want {
			t.Errorf("leave %v: at the door, kept, open: %v, want %v", leave, got, want)
		}
	}
}

// What is in the queue of the listener when it drains is answered.
func TestQueueIsAnsweredAtTheDoor(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	var all []net.Conn
	for range 50 {
		c := dialFrom(t, "127.0.0.1", w.addr)
		defer c.Close()
		_, _ = io.WriteString(c, closing("/1"))
		all = append(all, c)
	}
	w.listener.Drain()
	accept()
	w.listener.Close(time.Now().Add(time.Minute))
	for i, c := range all {
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if got, err := io.ReadAll(c); err != nil || len(got) == 0 {
			t.Fatalf("%d: %q, %v", i, got, err)
		}
	}
}
