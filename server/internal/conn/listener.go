package conn

import (
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"math"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/internal/systemd"
	"github.com/valyala/fasthttp"
)

// Handlers are what a [Listener] calls for its requests, on the goroutines of their connections.
type Handlers struct {
	// Answer appends the whole response to a simple request, or reports that fasthttp has to serve it. last
	// ends the connection. nil: fasthttp serves all.
	Answer func(dst []byte, c *Conn, h *Head) (out []byte, last, ok bool)
	// AnswerNow is Answer for a connection that has not been admitted, called by the goroutine that accepts
	// connections, which must not wait. If the answer may have to wait it also reports false, with no effect.
	// It must not keep c. nil: goroutines serve all connections.
	AnswerNow func(dst []byte, c *Conn, h *Head) (out []byte, last, ok bool)
	// Relay serves the next request that Answer did not take, in place of fasthttp, and all that have arrived
	// behind it. It reports whether others may follow. nil: fasthttp does.
	Relay func(c *Conn) (more bool)

	// Refuse appends the answer to a request that could not be read, depending on the error. Required with
	// Options.HTTP2.
	Refuse func(dst []byte, c *Conn, err error) []byte

	// Refused records a request on a connection with streams that was refused unread. Required with
	// Options.HTTP2.
	Refused func(c *Conn)

	Request    fasthttp.RequestHandler
	ParseError func(ctx *fasthttp.RequestCtx, err error)   // answers what fasthttp could not parse
	Expect     func(ctx *fasthttp.RequestCtx) (status int) // answers Expect: 100-continue
	Log        fasthttp.Logger                             // takes fasthttp's log
}

// Options are how a listener differs from a plain one on a TCP port.
type Options struct {
	Mode fs.FileMode // who may connect to a Unix socket

	// Proxied reports the peers that must begin a connection with a PROXY header. Others must not. nil: none.
	Proxied func(peer netip.Addr) bool

	TLS *tls.Config // nil: none

	// ReusePort lets other processes of this user bind the address too.
	ReusePort bool
	// DeferAccept makes the kernel hold new TCP connections back until their clients have sent something, for
	// at most a second or two (Linux only).
	DeferAccept bool

	// HTTP2 serves clients that choose HTTP/2, which TLS then offers. nil: HTTP/2 is off.
	HTTP2 Multiplexed
}

// trusts reports whether a peer must send a PROXY header.
func (o *Options) trusts(peer netip.Addr) bool { return o.Proxied != nil && o.Proxied(peer) }

// Listener is one address that takes traffic: it accepts connections and serves them. Use it once: Bind,
// Accept, then Retire, or Drain and Close.
type Listener struct {
	conns       *Conns // of all listeners
	options     atomic.Pointer[Options]
	ln          *retryListener
	http, large *fasthttp.Server // for heads up to smallHead, and for longer ones
	residents   *residents
	answer      func([]byte, *Conn, *Head) (out []byte, last, ok bool)
	answerNow   func([]byte, *Conn, *Head) (out []byte, last, ok bool)
	refuse      func([]byte, *Conn, error) []byte
	refused     func(*Conn)
	relay       func(*Conn) (more bool) // nil: fasthttp takes what residents do not
	accepted    chan struct{}           // closed when no more connections are accepted
}

// NewListener returns a listener whose connections are counted in conns.
func NewListener(conns *Conns, o Options, h Handlers) *Listener {
	small := min(smallHead, conns.limits.HeadBytes)
	l := &Listener{conns: conns, answer: h.Answer, answerNow: h.AnswerNow, relay: h.Relay, refuse: h.Refuse, refused: h.Refused, residents: newResidents(small), accepted: make(chan struct{})}
	l.options.Store(&o)
	l.http = l.newHTTP(&h, small)
	l.large = l.newHTTP(&h, conns.limits.HeadBytes)
	return l
}

// newHTTP returns a fasthttp server with a read buffer of that size, which is the longest head it accepts.
func (l *Listener) newHTTP(h *Handlers, head int) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:         h.Request,
		ErrorHandler:    h.ParseError,
		ExpectHandler:   h.Expect,
		ConnState:       l.conns.onState,
		Logger:          h.Log,
		ReadBufferSize:  head,
		WriteBufferSize: writeBuffer,
		Concurrency:     math.MaxInt32, // Conns bounds them

		// The handler reads and drops bodies. fasthttp insists on reading at least one byte itself; 0 would
		// mean its default of 4 MiB.
		StreamRequestBody:  true,
		MaxRequestBodySize: 1,

		// The Date header stays: an origin server with a clock should send one
		// (RFC 9110 §6.6.1). fasthttp formats it once a second; it costs a
		// copy of 37 bytes.
		NoDefaultServerHeader: true,
		NoDefaultContentType:  true,

		SecureErrorLogMessage:        true, // no client bytes in the log
		DisablePreParseMultipartForm: true, // no temporary files for a body nobody reads
	}
}

// writeBuffer holds a denial with all its fields.
const writeBuffer = 2 << 10

// Bind binds the address.
func (l *Listener) Bind(address string) error {
	o := l.options.Load()
	ln, err := Listen("listen", address, o.Mode, o.ReusePort)
	if err == nil && l.conns.limits.Held != nil {
		if err = wholeHandshakes(ln); err != nil {
			ln.Close()
		}
	}
	if err == nil {
		ln, err = pollable(ln)
	}
	if err == nil {
		deferAccept(ln, o.DeferAccept)
		_, shared := systemd.Name(address)
		l.ln = &retryListener{Listener: ln, failed: l.conns.acceptFailed, shared: shared}
	}
	return err
}

// SetOptions changes the options of connections accepted from now on. The mode of a socket stays.
func (l *Listener) SetOptions(o Options) {
	l.options.Store(&o)
	deferAccept(l.ln.Listener, o.DeferAccept)
}

// AcceptAtOnce makes the kernel stop holding connections back. Those held back now arrive within a second or
// two, or when the client sends something.
func (l *Listener) AcceptAtOnce() { deferAccept(l.ln.Listener, false) }

// Addr is the address that is bound, nil if none is.
func (l *Listener) Addr() net.Addr {
	if l.ln == nil {
		return nil
	}
	return l.ln.Addr()
}

// Accept serves connections until the listener is closed or drained, each on a goroutine of its own unless it
// is answered at the door.
func (l *Listener) Accept() error {
	defer close(l.accepted)
	return l.accept()
}

// Refuse stops new connections, where the system allows it.
func (l *Listener) Refuse() { l.ln.refuse() }

// Drain makes Accept take what is in the listener's queue, and then end.
func (l *Listener) Drain() { l.ln.drain() }

// DrainTime is how long that may take.
const DrainTime = time.Second

// Close closes the listener, which waits up to the deadline for Accept to end.
func (l *Listener) Close(deadline time.Time) {
	select {
	case <-l.accepted:
	case <-time.After(time.Until(deadline)):
	}
	_ = l.ln.Close() // it accepts no more either way
}

// Unbind closes a listener on which nothing was accepted.
func (l *Listener) Unbind() {
	if l.ln != nil {
		_ = l.ln.Close()
		l.ln = nil
	}
}

// ServeConn serves one connection in the caller's goroutine, until it ends or is parked. It reports false if
// the connection was refused.
func (l *Listener) ServeConn(nc net.Conn) bool {
	c := l.take(nc, l.options.Load())
	if c != nil {
		l.serve(c)
	}
	return c != nil
}

// take makes room for a connection, or refuses it and returns nil.
func (l *Listener) take(nc net.Conn, o *Options) *Conn {
	c, held := l.place(nc, o)
	if c != nil || held {
		return c
	}
	if o.TLS == nil {
		_ = nc.SetWriteDeadline(time.Now().Add(time.Second)) // a new socket takes it at once
		_, _ = nc.Write(fullAnswer.at(time.Now()))
	}
	nc.Close()
	return nil
}

var fullAnswer = newShortAnswer(fasthttp.StatusServiceUnavailable, "All connections are in use.", 1)

// place makes room for a connection. It returns nil if there is none, or if the kernel drops its peer's
// packets, in which case it was reset.
func (l *Listener) place(nc net.Conn, o *Options) (c *Conn, held bool) {
	c = l.conns.wrap(nc)
	c.from = l
	c.prepare(o)
	if l.conns.held(c) { // nobody has to make room for it
		l.conns.resets.Add(1)
		abort(nc)
		return nil, true
	}
	if !l.conns.admit(c) {
		return nil, false
	}
	if l.conns.held(c) { // since a moment ago; Reset may have run before it was admitted
		c.Reset()
	}
	return c, false
}

// serve serves a connection to its end, or until it is parked.
func (l *Listener) serve(c *Conn) {
	switch {
	case !l.open(c):
	case c.options.HTTP2 != nil && c.protocol() == "h2":
		l.serveSession(c)
	default:
		l.goOn(c)
		return
	}
	l.end(c)
}

// goOn serves the requests of a connection, until it ends or is parked.
func (l *Listener) goOn(c *Conn) {
	for more := true; more; {
		switch l.reside(c) {
		case isParked:
			return // others may have it by now
		case end:
			more = false
		case handOver:
			if l.relay == nil {
				l.serveHTTP(c)
				more = false
			} else {
				more = l.relay(c)
			}
		}
	}
	l.end(c)
}

func (l *Listener) end(c *Conn) {
	c.finish()
	l.conns.remove(c)
}

// step is what follows a resident's work.
type step uint8

const (
	wait     step = iota // for more bytes
	isParked             // nothing: the connection has no goroutine any more
	handOver             // to fasthttp, or to Relay
	end
)

// serveHTTP has fasthttp serve a connection. Heads that the small reader refuses go
// to the larger one.
func (l *Listener) serveHTTP(c *Conn) {
	for {
		c.in.unborn = true
		err := l.http.ServeConn(c)
		if !c.out.mute {
			l.report(c, err)
			return
		}
		c.large.begin()
		c.out.mute, c.out.unread = false, false
		l.conns.admitLarge(c)
		err = l.large.ServeConn(c)
		l.conns.leaveLarge(c)
		if !c.large.end() {
			l.report(c, err)
			return
		}
	}
}

// report logs why fasthttp ended a connection, unless the client has gone or has been told in an answer.
func (l *Listener) report(c *Conn, err error) {
	var netErr net.Error
	var small *fasthttp.ErrSmallBuffer
	switch {
	case err == nil, errors.As(err, &netErr), errors.As(err, &small),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return
	}
	l.http.Logger.Printf("error when serving connection %q<->%q: %v", c.LocalAddr(), c.RemoteAddr(), err)
}
