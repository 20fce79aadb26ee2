package conn

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/valyala/fasthttp"
)

// tlsSocket is the socket below TLS. Only the connection's goroutine reads it, and only through TLS.
type tlsSocket struct {
	net.Conn
	c       *Conn
	early   []byte // came with the PROXY header
	shaking bool   // the handshake is in progress
	secure  bool   // it has succeeded

	polling bool        // reads do not wait; see lastRead
	polled  bool        // and one has found something
	closing atomic.Bool // writes may take closeTime
}

// closeTime bounds the last message to a client that does not read. Package tls would wait for 5 s.
const closeTime = 100 * time.Millisecond

// Read implements net.Conn.
func (s *tlsSocket) Read(p []byte) (n int, err error) {
	switch {
	case len(s.early) > 0:
		n = copy(p, s.early)
		if s.early = s.early[n:]; len(s.early) == 0 {
			s.early = nil
		}
		return n, nil
	case s.polling:
		n, err = readNow(s.Conn, p)
		s.polled = s.polled || n > 0
		return n, err
	}
	n, err = s.Conn.Read(p)
	if s.shaking && n > 0 {
		s.c.beginOpening()
	}
	return n, err
}

// SetWriteDeadline implements net.Conn.
func (s *tlsSocket) SetWriteDeadline(t time.Time) error {
	if latest := time.Now().Add(closeTime); s.closing.Load() && t.After(latest) {
		t = latest
	}
	return s.Conn.SetWriteDeadline(t)
}

// errPartial means that bytes have arrived, but no whole record.
var errPartial = errors.New("part of a TLS record")

// lastRead is [lastRead] for what comes through TLS. Our side is shut down by Close.
func (s *tlsSocket) lastRead(through net.Conn, p []byte) (int, error) {
	s.polling, s.polled = true, false
	n, err := through.Read(p)
	s.polling = false
	switch {
	case n > 0:
		return n, nil
	case s.polled && errors.Is(err, os.ErrDeadlineExceeded):
		return 0, errPartial
	}
	return 0, io.EOF
}

// handshake does the handshake. If it fails the connection has to be closed; a client that speaks HTTP
// without TLS gets an answer.
func (c *Conn) handshake() error {
	s := c.opening.tls
	s.early, c.in.replay = c.in.replay, nil
	s.shaking = true
	err := c.Conn.(*tls.Conn).Handshake() // see prepare
	s.shaking = false
	if err == nil {
		s.secure = true
		return nil
	}
	c.out.closed = true
	class := tlsClassOf(err)
	if !c.orders.end() {
		c.conns.tlsErrors[class].Add(1)
	}
	if head := new(tls.RecordHeaderError); class == tlsNotTLS && errors.As(err, head) && likeHTTP(head.RecordHeader) {
		_ = s.Conn.SetWriteDeadline(time.Now().Add(time.Second)) // a new socket takes it at once
		_, _ = s.Conn.Write(plainAnswer.at(time.Now()))
		c.out.closed, c.out.unread = false, true
	}
	return err
}

// protocol is the client's choice by ALPN; empty without TLS or a choice. It is not inlined, because the
// state of a TLS connection is large, and would stay on the stack of idle ones
// (TestIdleConnectionsHoldLittle).
//
//go:noinline
func (c *Conn) protocol() string {
	if through, ok := c.Conn.(*tls.Conn); ok {
		return through.ConnectionState().NegotiatedProtocol
	}
	return ""
}

// likeHTTP checks the first bytes of something other than TLS.
func likeHTTP(head [5]byte) bool {
	for _, b := range head {
		if (b < 'A' || b > 'Z') && b != ' ' && b != '/' {
			return false
		}
	}
	return true
}

var plainAnswer = newShortAnswer(fasthttp.StatusBadRequest, "This port speaks HTTPS: the request came without TLS.", 0)

// shortAnswer is an answer, except for its Date, to a client whose request is not served.
type shortAnswer []byte

// dateHere is where the Date of an answer goes, after the status line.
var dateHere = []byte("\r\n")

// at returns the whole answer.
func (a shortAnswer) at(now time.Time) []byte {
	status, rest, _ := bytes.Cut(a, dateHere)
	whole := append(make([]byte, 0, len(a)+64), status...)
	whole = append(whole, "\r\nDate: "...)
	whole = append(fasthttp.AppendHTTPDate(whole, now), dateHere...)
	return append(whole, rest...)
}

func newShortAnswer(status int, detail string, retry int) shortAnswer {
	var r fasthttp.Response
	r.SetStatusCode(status)
	r.Header.SetContentType(denial.ProblemMediaType)
	if retry > 0 {
		r.Header.Set("Retry-After", "1")
	}
	r.SetConnectionClose()
	r.SetBody(denial.Problem(status, detail))
	before, after, _ := bytes.Cut([]byte(r.String()), []byte("\r\nDate: ")) // the current one
	_, after, _ = bytes.Cut(after, []byte("\r\n"))
	return shortAnswer(slices.Concat(before, []byte("\r\n"), after))
}

// tlsClass says why a handshake failed. The set is closed: it is a label.
type tlsClass uint8

const (
	tlsNotTLS     tlsClass = iota
	tlsVersion             // no version in common
	tlsParameters          // no cipher suite or signature algorithm in common
	tlsALPN                // no protocol in common: the client insists on HTTP/2
	tlsRefused             // the client has refused, for example the certificate
	tlsTimeout
	tlsClosed
	tlsProtocol // anything else
	tlsClasses
)

var tlsClassNames = [tlsClasses]string{"not_tls", "version", "parameters", "alpn", "refused", "timeout", "closed", "protocol"}

// tlsWords are package tls's words for errors without a type (Go 1.26, TestHandshakeErrors).
var tlsWords = []struct {
	words string
	class tlsClass
}{
	{"unsupported versions", tlsVersion},
	{"unsupported application protocols", tlsALPN},
	{"no cipher suite supported", tlsParameters},
	{"no ECDHE curve supported", tlsParameters},
	{"signature algorithms", tlsParameters},
	{"no supported signature", tlsParameters},
}

func tlsClassOf(err error) tlsClass {
	var op *net.OpError
	switch {
	case errors.As(err, new(tls.RecordHeaderError)):
		return tlsNotTLS
	case errors.Is(err, os.ErrDeadlineExceeded):
		return tlsTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return tlsClosed
	case errors.As(err, &op) && op.Op == "remote error":
		return tlsRefused
	}
	for _, w := range tlsWords {
		if strings.Contains(err.Error(), w.words) {
			return w.class
		}
	}
	return tlsProtocol
}

// HandshakeErrors returns how many TLS handshakes failed, by class.
func (c *Conns) HandshakeErrors() map[string]uint64 { return byName(tlsClassNames[:], c.tlsErrors[:]) }
