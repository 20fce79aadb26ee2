// Package h2 speaks HTTP/2 to clients, and HTTP/1.1 to the code that serves their requests.
//
//	conn.Session ─► net/http (frames, HPACK, flow control) ─► exchange ─► stream ─► conn.Session.Serve
//
// Package net/http reads frames and gives each request its own goroutine. There it is written as a request of
// HTTP/1.1, checked as strictly as package http1 checks those, and served by the listener as if it had
// arrived on its own connection. The answer, also bytes of HTTP/1.1, is read by package http1 and sent as
// frames. So a decision, a denial, a forwarded body have one implementation, and no check of HTTP/1 is
// missing here. A stream has no socket and no goroutines besides net/http's: reading and writing it calls
// net/http.
//
// # Bounds
//
// A connection has at most [MaxStreams] requests in progress. net/http holds up to four times as many that
// wait because earlier ones were reset, and ends the connection beyond that. A client that resets most of its
// requests is cut off ([maxResets]). The windows bound unread data from clients: windowBytes a connection.
package h2

import (
	"context"
	"log"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/conn"
)

const (
	// MaxStreams is how many requests of a connection may be in progress: 100, the least
	// that RFC 9113 §6.5.2 recommends, and what browsers are used to.
	MaxStreams = 100

	streamWindow = 64 << 10  // bytes of a body that may arrive unread: RFC 9113's initial value
	windowBytes  = 128 << 10 // of all bodies of a connection
	frameBytes   = 16 << 10  // of a frame: the least there is
	tableBytes   = 4 << 10   // of HPACK's tables, either way
)

// maxResets is how many requests a client may give up on one connection, if they are more than half of all.
// Users who leave pages reset some; a client that does little else causes work without wanting the answers
// (CVE-2023-44487).
const maxResets = 500

// Config configures a [Server]. All of it is required.
type Config struct {
	HeadBytes    int           // of a request, as for HTTP/1
	WriteTimeout time.Duration // without progress on a connection
	Log          *slog.Logger  // takes net/http's log, at level debug
}

// Server serves connections on which clients have chosen HTTP/2. It is safe for concurrent
// use. The zero value is not usable: call [New].
type Server struct {
	protocols http.Protocols
	http2     http.HTTP2Config
	head      int
	log       *log.Logger //nolint:forbidigo // net/http wants one

	open                  atomic.Int64
	streams, resets, cuts atomic.Uint64
}

// New returns a server.
func New(c Config) *Server {
	s := &Server{head: c.HeadBytes, log: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug)}
	s.protocols.SetUnencryptedHTTP2(true) // TLS is below the connections that it gets
	s.http2 = http.HTTP2Config{
		MaxConcurrentStreams:          MaxStreams,
		MaxDecoderHeaderTableSize:     tableBytes,
		MaxEncoderHeaderTableSize:     tableBytes,
		MaxReadFrameSize:              frameBytes,
		MaxReceiveBufferPerConnection: windowBytes,
		MaxReceiveBufferPerStream:     streamWindow,
		WriteByteTimeout:              c.WriteTimeout,
	}
	return s
}

// Stats are a server's counts since the start.
type Stats struct {
	Connections int64  // open now
	Streams     uint64 // requests that began
	Resets      uint64 // requests that clients gave up before the answer ended
	Cut         uint64 // connections that were ended for too many resets
}

// Stats returns what was counted since the start.
func (s *Server) Stats() Stats {
	return Stats{Connections: s.open.Load(), Streams: s.streams.Load(), Resets: s.resets.Load(), Cut: s.cuts.Load()}
}

// Serve is a [conn.Multiplexed].
func (s *Server) Serve(session *conn.Session) {
	s.open.Add(1)
	defer s.open.Add(-1)
	c := &connection{server: s, session: session, watched: watched{Session: session, heads: heads{skip: prefaceBytes}}}
	config := s.http2
	config.CountError = c.watched.countError
	// Each has its own server, as only a server can be told to send GOAWAY.
	srv := &http.Server{
		Handler: c, Protocols: &s.protocols, HTTP2: &config, MaxHeaderBytes: s.head, ErrorLog: s.log,
		DisableGeneralOptionsHandler: true, // OPTIONS * is a request like others
	}
	session.OnLeave(func() {
		c.watched.leaving.Store(true)
		go c.goAway(srv)
	})
	_ = srv.Serve(&single{conn: &c.watched, closed: make(chan struct{})}) // until either is closed
	<-session.Closed()
	c.handlers.close()
	c.watched.charge(0)
}

// connection is a connection whose requests net/http gives to ServeHTTP.
type connection struct {
	server        *Server
	session       *conn.Session
	watched       watched
	handlers      gate
	begun, resets atomic.Uint64
}

// ServeHTTP implements [http.Handler].
func (c *connection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.handlers.enter() {
		panic(http.ErrAbortHandler)
	}
	defer c.handlers.leave()
	c.watched.served.Add(1)
	c.server.streams.Add(1)
	begun := c.begun.Add(1)
	answered := exchange(c.session, w, r)
	if r.Context().Err() != nil {
		c.server.resets.Add(1)
		if n := c.resets.Add(1); n >= maxResets && 2*n > begun {
			c.handlers.shut() // nothing new begins while it is cut off
			if c.session.Cut() {
				c.server.cuts.Add(1)
			}
		}
	}
	if !answered {
		panic(http.ErrAbortHandler) // resets the stream, without logging
	}
}

// goAway tells the client to open no further streams. The connection ends a moment after the last one has
// ended.
func (c *connection) goAway(srv *http.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // it would wait for connections that it does not know
	_ = srv.Shutdown(ctx)
}

// gate waits for those who entered it.
type gate struct {
	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup
}

// enter reports false once the gate is closed.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.inside.Add(1)
	}
	return !g.closed
}

func (g *gate) leave() { g.inside.Done() }

// shut lets nobody enter from now on.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// close is shut, and waits for those inside.
func (g *gate) close() {
	g.shut()
	g.inside.Wait()
}
