package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// Why [Pool.Get] returns no connection, besides a [DialError].
var (
	ErrQueueFull    = errors.New("upstream: too many requests are waiting for a connection")
	ErrQueueTimeout = errors.New("upstream: no connection became free in time")
	ErrCanceled     = errors.New("upstream: the client disconnected while its request waited")
	ErrClosed       = errors.New("upstream: the pool is closed")
)

// ErrInterrupted is the error of a connection on which Interrupt was called.
var ErrInterrupted = errors.New("interrupted")

// DialError means that no server could be connected to; it is about the one tried last.
type DialError struct {
	Server  string // its name
	Timeout bool
	Err     error
	class   dialClass
}

// Error implements error.
func (e *DialError) Error() string { return fmt.Sprintf("upstream %s: %v", e.Server, e.Err) }

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Err }

// IOError means that a connection failed within a request.
type IOError struct {
	Server string // its name
	// Stale means that a pooled connection was found closed, or with unasked data, before a byte of the
	// request was written: any request may be sent again.
	Stale bool
	// Answered means that a byte of an answer was read since the connection was lent. If not, and if the
	// connection is Reused, the server may have closed it while the request was on its way: an idempotent one
	// may be sent again.
	Answered bool
	Timeout  bool
	Err      error // io.EOF: closed by the server
}

// Error implements error.
func (e *IOError) Error() string { return fmt.Sprintf("upstream %s: %v", e.Server, e.Err) }

// Unwrap returns the cause.
func (e *IOError) Unwrap() error { return e.Err }

// errUnasked is the cause of a stale connection that is not closed.
var errUnasked = errors.New("the server sent something without being asked")

// dialClass says why a dial failed. The set is closed: it is a label.
type dialClass uint8

const (
	dialOther   dialClass = iota
	dialRefused           // nothing listens
	dialTimeout
	dialResolve // no address with that name
	dialTLS     // the handshake failed, or the certificate is invalid
	dialLocal   // no descriptor or port is free here
	dialClasses
)

var dialClassNames = [dialClasses]string{"other", "refused", "timeout", "resolve", "tls", "local"}

// classOf classifies the errors of dials and handshakes.
func classOf(err error) dialClass {
	var timeout interface{ Timeout() bool }
	switch {
	case is[*net.DNSError](err):
		return dialResolve
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return dialTimeout
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return dialRefused
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EADDRNOTAVAIL):
		return dialLocal
	case is[tls.RecordHeaderError](err), is[tls.AlertError](err), is[*tls.CertificateVerificationError](err),
		is[x509.HostnameError](err), is[x509.UnknownAuthorityError](err):
		return dialTLS
	}
	return dialOther
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
