// Package proxy passes admitted requests on to upstream servers, and their answers back.
//
//	conn.resident ─► decide.answerSimple ─► Forward ─┐
//	conn.Listener ─► Relay ─► decide.Admit ──────────┴─► exchange.run ─► upstream.Conn
//
// A request without a body that is simple enough for a resident comes by Forward, on the goroutine of its
// connection; all others by Relay, which reads them itself. The heads of requests and answers are rewritten
// from what was read, and bodies are framed again: what leaves here has one meaning, whatever came. Nothing
// is passed on that package http1 refuses.
//
// # Goroutines
//
// An exchange runs on the goroutine of its connection, which reads the answer. If the body of the request has
// not arrived completely with its head, another goroutine sends it meanwhile (upload.go), and an upgraded
// connection has one more for what the client sends (tunnel.go). Both end before the exchange does.
//
// # Memory
//
// An exchange takes a few KiB while it lasts, and a body one or two buffers, however long it is. Idle
// connections take nothing.
package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/decide"
	"github.com/fastlimit/fastlimit/server/internal/logs"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// Config configures a [Proxy]. All of it is required.
type Config struct {
	Settings

	Service *decide.Service
	Log     *slog.Logger
}

// Settings are what [Proxy.Set] replaces. Only the pool is required.
type Settings struct {
	Pool         *upstream.Pool
	ClientHeader string   // with which trusted proxies name the client
	Headers      []string // that rules read

	// RefuseLookAlikes refuses requests with the look-alike of a field. Otherwise the field is dropped.
	RefuseLookAlikes bool
}

// Proxy is a [decide.Forwarder]. It is safe for concurrent use. The zero value is not
// usable: call [New].
type Proxy struct {
	service *decide.Service
	behind  atomic.Pointer[behind]
	log     *slog.Logger
	answers answers

	id, viaLine []byte
	finishTime  time.Duration

	exchanges, readers, large, uploads sync.Pool

	counts counts
	logged logs.Budget
}

// behind is [Settings], prepared.
type behind struct {
	pool          *upstream.Pool
	clientHeader  string // folded
	clientInitial byte   // its first letter, in lower case
	guard         guard
	refuse        bool // refuse a request with a look-alike
}

// Set makes new requests be passed on with other settings. Requests that have a connection of the previous
// pool keep it; those that wait for one go to the new pool when the old one is closed.
func (p *Proxy) Set(s Settings) {
	b := &behind{s.Pool, fold(s.ClientHeader), 'x', newGuard(s.Headers), s.RefuseLookAlikes}
	if b.clientHeader != "" {
		b.clientInitial = b.clientHeader[0]
	}
	p.behind.Store(b)
}

// New returns a proxy. Its name in Via is unique, so that a chain of proxies is not taken for a loop.
func New(c Config) *Proxy {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it does not fail
	p := &Proxy{service: c.Service, log: c.Log, answers: newAnswers(), finishTime: finishTime}
	p.Set(c.Settings)
	p.id = append([]byte("fastlimit-"), hex.EncodeToString(id[:])...)
	p.viaLine = append(append([]byte("Via: 1.1 "), p.id...), "\r\n"...)
	p.exchanges.New = func() any { return &exchange{p: p, buf: make([]byte, answerBuffer)} }
	p.readers.New = func() any { return &reader{buf: make([]byte, readBuffer)} }
	p.large.New = func() any { return new([largeBuffer]byte) }
	p.uploads.New = func() any { return new([uploadBuffer]byte) }
	return p
}

const (
	readBuffer   = 4 << 10  // of requests
	answerBuffer = 8 << 10  // of the beginning of an answer
	largeBuffer  = 32 << 10 // of the rest of a long answer
	uploadBuffer = 16 << 10 // of the body of a request
	maxHead      = 64 << 10 // of an answer
)

// EndSecond ends a second of the log. Called by one goroutine.
func (p *Proxy) EndSecond() {
	var n uint64
	for i := range p.counts.failures {
		n += p.counts.failures[i].Load()
	}
	logs.Suppressed(p.log, "requests that could not be passed on, not logged", p.logged.Refill(1, n))
}

// Stats are a proxy's counts.
type Stats struct {
	Answers, Failures map[string]uint64 // from upstream servers by class of status (2xx); from us by reason
	Retries           uint64            // requests sent again because a pooled connection was closed
	Broken            uint64            // answers that ended prematurely
	Left              uint64            // requests whose clients left before the answer
	Tunnels           int64             // upgraded connections now
}

// Stats returns what was counted since the start.
func (p *Proxy) Stats() Stats {
	c := &p.counts
	s := Stats{Answers: map[string]uint64{}, Failures: map[string]uint64{}, Retries: c.retries.Load(), Broken: c.broken.Load(), Left: c.left.Load(), Tunnels: c.tunnels.Load()}
	for i := range c.failures {
		s.Failures[failureNames[i]] = c.failures[i].Load()
	}
	for class := 1; class < len(c.answers); class++ {
		s.Answers[string(rune('0'+class))+"xx"] = c.answers[class].Load()
	}
	return s
}
