package conn

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Session is a connection that carries many requests at once, each on a [Stream]: one of HTTP/2. It is the
// net.Conn for the reader of its frames ([Options].HTTP2), which calls Serve for each request.
//
// The connection counts against Limits.Max and Limits.PerClient, and has the phases fresh,
// streaming, idle and lingering. Each stream has a Conn of its own with the phases of a
// request and their timeouts, and counts against Limits.Streams. It is safe for concurrent use.
type Session struct {
	net.Conn // below the frames
	c        *Conn
	l        *Listener
	goAway   func() // tells the client to open no further streams

	mu      sync.Mutex
	open    int  // streams; guarded by mu
	leaving bool // goAway was called; guarded by mu

	streams   group       // guarded by conns.mu
	forwarded atomic.Bool // a request had a forwarding header
	cut       atomic.Bool
	closed    chan struct{}
	once      sync.Once
}

// Stream is a request as bytes of HTTP/1.1, head and body, and takes the answer in the same form. A deadline
// in the past ends reads or writes permanently; others are ignored.
type Stream interface {
	net.Conn
	// Head returns the head of the request, which is also read later, or why the request is refused. It is
	// called once, before anything is read.
	Head() ([]byte, error)
	// Context ends when the client gives up the request, or has gone.
	Context() context.Context
}

// Multiplexed is [Options].HTTP2: it serves s until [Session.Closed], and returns when no stream is left. It
// calls [Session.OnLeave] before the first stream.
type Multiplexed func(s *Session)

// serveSession serves a connection on which the client has chosen HTTP/2.
func (l *Listener) serveSession(c *Conn) {
	s := &Session{Conn: c.Conn, c: c, l: l, goAway: func() {}, streams: group{kind: groupStream}, closed: make(chan struct{})}
	c.conns.mu.Lock()
	c.entry.session = s
	c.conns.mu.Unlock()
	c.options.HTTP2(s)
	c.out.closed = true // the client was told, and had time to close
}

// OnLeave sets what tells the client to open no further streams. Any goroutine may call goAway, at most once,
// and it must not block.
func (s *Session) OnLeave(goAway func()) { s.goAway = goAway }

// Read implements net.Conn. Another goroutine that wants the connection to end sets a deadline in the past:
// at first the client is only told to go away.
func (s *Session) Read(p []byte) (int, error) {
	for {
		n, err := s.Conn.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !s.c.orders.leave.Load() || s.c.orders.evicted.Load() || s.cut.Load() || !s.leave() && s.resting() {
			return n, err
		}
		_ = s.SetReadDeadline(noDeadline)
	}
}

// Close implements net.Conn: it records that no frame is read or written any more. [Listener.serve] closes
// the socket later.
func (s *Session) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Closed is closed by Close.
func (s *Session) Closed() <-chan struct{} { return s.closed }

// Cut ends the connection now. It reports false if it was called before.
func (s *Session) Cut() bool {
	before := s.cut.Swap(true)
	_ = s.c.SetDeadline(longAgo)
	return !before
}

// Refused records n malformed requests that never became streams.
func (s *Session) Refused(n uint64) {
	for range n {
		s.l.refused(s.c)
	}
}

// HeadBytes bounds the head of a request.
func (s *Session) HeadBytes() int { return s.c.conns.limits.HeadBytes }

// leave tells the client to go away, and reports whether this is the first time.
func (s *Session) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return false
	}
	s.leaving = true
	s.restLocked(lingering)
	s.goAway()
	return true
}

// resting reports whether no stream is open.
func (s *Session) resting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open == 0
}

// restLocked begins a phase of the connection if no stream is open.
func (s *Session) restLocked(p phase) {
	if s.open == 0 {
		s.c.enter(p)
	}
}

// Serve serves the request on a stream. If there are too many, it gets [fullStream].
func (s *Session) Serve(st Stream) {
	c := s.begin(st)
	if c == nil {
		_, _ = st.Write(fullStream.at(time.Now()))
		return
	}
	defer s.end(c)
	defer context.AfterFunc(st.Context(), c.awaits.upstream.cut)() // for a client that gives it up
	head, err := st.Head()
	if err == nil && len(head) > s.HeadBytes() {
		err = &fasthttp.ErrSmallBuffer{}
	}
	var h Head
	switch {
	case err != nil:
		c.in.gate.skip(&h)
		_, _ = c.Write(s.l.refuse(nil, c, err))
	case s.l.answerWhole(c, &h, head):
	case s.l.relay != nil:
		s.l.relay(c)
	default:
		s.l.serveHTTP(c)
	}
}

// answerWhole answers a simple request like a resident.
func (l *Listener) answerWhole(c *Conn, h *Head, head []byte) bool {
	if _, what := h.read(head); what != whole || l.answer == nil {
		return false
	}
	b := answerBuffers.Get().(*[]byte) // from the pool
	defer answerBuffers.Put(b)
	was := c.in.gate.skip(h)
	out, _, ok := l.answer((*b)[:0], c, h)
	if !ok {
		c.in.gate.unskip(was)
		return false
	}
	*b = out[:0]
	_, _ = c.Write(out) // the stream knows if it was not answered
	return true
}

var answerBuffers = sync.Pool{New: func() any { return new([]byte) }}

// begin returns a connection for a stream; nil if there are too many.
func (s *Session) begin(st Stream) *Conn {
	conns := s.c.conns
	c := conns.wrap(st)
	c.addr, c.parent = s.c.addr, s
	c.enter(reading)

	conns.mu.Lock()
	if !conns.addStreamLocked(s, c) {
		conns.mu.Unlock()
		return nil
	}
	last := s.c.orders.leave.Load()
	c.orders.leave.Store(last)
	conns.mu.Unlock()

	s.mu.Lock()
	s.open++
	s.c.enter(streaming)
	s.mu.Unlock()
	if last {
		s.leave()
	}
	return c
}

// end forgets a stream. Where a connection of HTTP/1 would be closed because the server drains or is crowded,
// the client is told to go away.
func (s *Session) end(c *Conn) {
	if c.in.gate.forwarded {
		s.forwarded.Store(true)
	}
	conns := s.c.conns
	conns.mu.Lock()
	conns.removeStreamLocked(s, c)
	conns.mu.Unlock()

	denied := c.out.denied || c.phase() == idleDenied
	s.mu.Lock()
	s.open--
	switch {
	case s.leaving:
		s.restLocked(lingering)
	case denied:
		s.restLocked(idleDenied)
	default:
		s.restLocked(idle)
	}
	s.mu.Unlock()
	if c.orders.leave.Load() || denied && conns.crowded.Load() {
		s.leave()
	}
}

// givenUp reports whether the client of a stream has given up its request.
func (c *Conn) givenUp() bool {
	return c.parent != nil && c.Conn.(Stream).Context().Err() != nil // see begin
}

// class is the class of a connection with streams: that of the stream with the most reason to stay. Called
// with conns.mu held.
func (s *Session) class(tick uint32) class {
	most := classLingering
	for _, c := range s.streams.members {
		since := c.since()
		most = max(most, classify(since.phase(), since.age(tick)))
	}
	return most
}
