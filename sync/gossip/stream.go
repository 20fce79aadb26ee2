package gossip

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// accept hands streams to memberlist, a bounded number at a time: it reads what
// a stranger sends before it can tell that the key is wrong.
func (t *transport) accept() {
	for wait := retryLeast; ; {
		conn, err := t.tcp.Accept()
		if t.done.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return
		}
		if err != nil { // file descriptors ran out, say
			t.refuse(reasonNetwork, nil)
			wait = t.pause(wait)
			continue
		}
		wait = retryLeast
		select {
		case t.slots <- struct{}{}:
		default:
			t.refuse(reasonStreams, conn.RemoteAddr())
			conn.Close()
			continue
		}
		s := t.stream(t.done, conn, func() { <-t.slots })
		s.short = func() { t.refuse(reasonTruncated, conn.RemoteAddr()) }
		select {
		case t.streams <- s:
		case <-t.done.Done():
			_ = s.Close()
			return
		}
	}
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	conn, err := d.DialContext(t.dialing, "tcp", a.Addr)
	if err != nil {
		return nil, err
	}
	return t.stream(t.dialing, conn, func() {}), nil
}

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

var errStreamSize = errors.New("the list of members is larger than the limit: max_nodes is too low, or the sender is no node")

// stream is a connection that carries a bounded number of bytes, counts them,
// and is cut when the node stops.
type stream struct {
	net.Conn
	of     *transport
	left   int64  // bytes that may be read; one goroutine reads
	short  func() // called when it ends before it was read; nil: of no interest
	closed func() error
}

func (t *transport) stream(until context.Context, conn net.Conn, released func()) *stream {
	detach := context.AfterFunc(until, func() { conn.Close() })
	return &stream{
		Conn: conn, of: t, left: t.streamSize,
		closed: sync.OnceValue(func() error {
			detach()
			err := conn.Close()
			released()
			return err
		}),
	}
}

// Read implements net.Conn.
func (s *stream) Read(b []byte) (int, error) {
	if s.left <= 0 {
		return 0, errStreamSize
	}
	n, err := s.Conn.Read(b[:min(int64(len(b)), s.left)])
	if err == io.EOF && s.short != nil && s.left < s.of.streamSize { //nolint:errorlint // of a net.Conn
		s.short()
	}
	s.left -= int64(n)
	s.of.received.Add(uint64(n))
	return n, err
}

// Write implements net.Conn.
func (s *stream) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.of.sent.Add(uint64(n))
	return n, err
}

// Close implements net.Conn. It may be called more than once.
func (s *stream) Close() error { return s.closed() }
