package conn

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A request that waits for its slot does not read its socket, and may wait for long. So the connection is
// watched meanwhile: by epoll if the system has it, else by reading ahead. Whatever ends the wait early
// cancels the context of [Conn.BeginWait]; the request is then denied, and the answer is sent as usual.
//
// A FIN counts as leaving. It may be half of a close or all of it, and the server cannot distinguish the two
// without answering. A client that only half-closes reads its denial at once.

// waiting watches a connection whose request waits. It lives as long as the connection, once one of its
// requests has waited.
type waiting struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil: no request waits; guarded by mu
	stop   func()             // ends the watch; used by the connection's goroutine, like began
	began  time.Time
}

// left ends the wait, if there is one. Any goroutine may call it.
func (w *waiting) left() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
	}
}

// awaited is what the request that is being handled waits for: its slot, or the upstream. Its goroutine
// begins and ends both waits; any goroutine may end them early.
type awaited struct {
	line     atomic.Pointer[waiting] // nil: no request has waited
	upstream link
}

// leaveLine ends the wait for a slot, if there is one.
func (a *awaited) leaveLine() {
	if w := a.line.Load(); w != nil {
		w.left()
	}
}

// giveUp ends whatever the request waits for.
func (a *awaited) giveUp() {
	a.leaveLine()
	a.upstream.cut()
}

// BeginWait is called when the request begins to wait in a queue. Answers to the requests before it are sent
// now. The result ends when the client leaves, or when the connection has to make room for others. The
// request itself is not touched, nor is what the client has sent behind it. It does not block, because the
// request already has a slot. It implements policy.Waiter.
func (c *Conn) BeginWait() context.Context { return c.beginWait(queued) }

func (c *Conn) beginWait(p phase) context.Context {
	w := c.awaits.line.Load()
	if w == nil {
		w = new(waiting)
		c.awaits.line.Store(w)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.mu.Lock()
	w.cancel = cancel
	w.mu.Unlock()
	if p == queued && c.out.unsent != nil && !c.out.unsent.flush() {
		cancel() // slots are for clients that take their answers: this one would keep its slot longer
	}
	c.enter(p)
	if c.orders.reset.Load() || p == queued && c.orders.evicted.Load() { // from the phase before
		cancel()
	}
	w.stop, w.began = c.conns.watch(c, w, p), time.Now()
	return ctx
}

// EndWait is called when there is a decision on the request.
func (c *Conn) EndWait() {
	c.conns.waited.Observe(time.Since(c.endWait()))
}

// endWait ends what beginWait has begun, and returns when that was.
func (c *Conn) endWait() (began time.Time) {
	w := c.awaits.line.Load()
	w.stop()
	w.stop = nil
	w.mu.Lock()
	w.cancel()
	w.cancel = nil
	w.mu.Unlock()
	c.enter(writing)
	return w.began
}

// watch makes the poller call w.left when the client of c leaves, until stop is called.
func (c *Conns) watch(cn *Conn, w *waiting, p phase) (stop func()) {
	if cn.parent != nil {
		end := context.AfterFunc(cn.Conn.(Stream).Context(), w.left) // see Session
		return func() { end() }
	}
	stop, err := c.poller.watchLeaving(cn, w.left)
	switch {
	case err == nil:
		return stop
	case p != queued:
		return func() {}
	}
	// It cannot be noticed. Slots are for clients that stay, so the request is denied.
	c.waitErrors.Do(func() {
		c.report.log.Error("requests cannot wait and are denied: raise the limit of open files", slog.String("error", err.Error()))
	})
	w.left()
	return func() {}
}

// Close ends the watch over waiting requests, which exists once one has waited. Call it when no connection is
// left: requests that wait later are denied, and parked connections get no events.
func (c *Conns) Close() { c.poller.close() }

// ahead reads what a client sends while its request waits, up to aheadBytes, where nothing else reveals that
// it leaves. It is not for residents, which hold the socket.
type ahead struct {
	conn *Conn
	left func()
	done chan struct{}
	got  []byte // of the goroutine until done
}

// aheadBytes is how much is read. A client that pipelines more is not noticed when it leaves before its
// request is decided.
const aheadBytes = 4 << 10

func readAhead(c *Conn, left func()) (stop func(), err error) {
	a := &ahead{conn: c, left: left, done: make(chan struct{})}
	go a.read()
	return a.stop, nil
}

func (a *ahead) read() {
	defer close(a.done)
	var buf [512]byte
	for len(a.got) < aheadBytes {
		n, err := a.conn.Conn.Read(buf[:])
		a.got = append(a.got, buf[:n]...)
		if err == nil {
			continue
		}
		if ne, ok := err.(net.Error); !ok || !ne.Timeout() { //nolint:errorlint // as it comes from the socket
			a.left()
		}
		return
	}
}

// stop ends the reading. What was read is read again, through the gate.
func (a *ahead) stop() {
	_ = a.conn.Conn.SetReadDeadline(longAgo)
	<-a.done
	_ = a.conn.Conn.SetReadDeadline(time.Time{})
	a.conn.in.replay = append(a.conn.in.replay, a.got...)
}
