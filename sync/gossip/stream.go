package gossip

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// accept accepts streams, at most maxStreams at a time: a stranger's bytes must be
// read before they can be told from a node's.
func (t *transport) accept() {
	for waits := retryWaits(); ; {
		conn, err := t.tcp.Accept()
		if t.done.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return
		}
		if err != nil { // out of file descriptors, for example
			t.refuse(reasonNetwork, nil)
			t.pause(waits)
			continue
		}
		waits.Reset()
		select {
		case t.slots <- struct{}{}:
		default:
			t.refuse(reasonStreams, conn.RemoteAddr())
			conn.Close()
			continue
		}
		s := t.stream(t.done, conn, func() { <-t.slots })
		t.goroutines.Go(func() { t.serve(s) })
	}
}

// serve hands a stream to memberlist once its message has passed the gate. A
// stranger gets no answer: memberlist would send an encrypted one, which is material
// for forgeries.
func (t *transport) serve(s *stream) {
	_ = s.SetDeadline(time.Now().Add(streamTimeout))
	frame, plain, reason := t.gate.readOpening(&counter{Reader: s.Conn, transport: t})
	if reason == accepted && isAsked(plain) {
		if answer := t.answer(plain); answer != nil {
			_ = s.SetDeadline(time.Now().Add(streamTimeout)) // it may have taken a while
			_, _ = s.Write(t.gate.seal(answer))
		}
		_ = s.Close()
		return
	}
	if reason == accepted {
		reason = inRequests.check(plain)
	}
	if reason != accepted || t.silent.Load() {
		if reason != accepted && t.done.Err() == nil {
			t.refuse(reason, s.RemoteAddr())
		}
		_ = s.Close()
		return
	}
	s.ready, s.checked = slices.Concat(t.gate.header, frame), true
	select {
	case t.streams <- s:
	case <-t.done.Done():
		_ = s.Close()
	}
}

var errSilent = errors.New("another node has this one's name")

// DialAddressTimeout implements memberlist.NodeAwareTransport. It fails while the
// transport is silent.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if t.silent.Load() {
		return nil, errSilent
	}
	return t.dial(a.Addr, timeout)
}

func (t *transport) dial(addr string, timeout time.Duration) (*stream, error) {
	d := net.Dialer{Timeout: timeout}
	conn, err := d.DialContext(t.dialing, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return t.stream(t.dialing, conn, func() {}), nil
}

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// errReply are the errors that memberlist gets in place of an answer that is dropped.
var errReply = map[string]error{
	reasonKey:       errors.New("its answer is not encrypted with the key of this cluster"),
	reasonTruncated: errors.New("its answer is too short"),
	reasonStreams:   errors.New("its list of members is larger than the limit: max_nodes is too low, or it is no node"),
	reasonMalformed: errors.New("its answer cannot be read"),
	reasonVersion:   errors.New("it speaks another version, or knows a node that does"),
}

// stream is a connection from which memberlist reads one message, which has passed
// the gate. It counts its bytes and is closed when the node stops.
type stream struct {
	net.Conn
	transport *transport
	checked   bool   // the message has passed the gate; used by the reading goroutine only
	ready     []byte // the part of the message that memberlist has not read yet
	closed    func() error
}

func (t *transport) stream(until context.Context, conn net.Conn, released func()) *stream {
	detach := context.AfterFunc(until, func() { conn.Close() })
	return &stream{
		Conn: conn, transport: t,
		closed: sync.OnceValue(func() error {
			detach()
			err := conn.Close()
			released()
			return err
		}),
	}
}

// Read implements net.Conn. On a stream that this node opened, the first Read reads
// and checks the whole answer.
func (s *stream) Read(b []byte) (int, error) {
	if !s.checked {
		c := &counter{Reader: s.Conn, transport: s.transport}
		frame, plain, reason := s.transport.gate.readFrame(c)
		if reason == accepted {
			reason = inReplies.check(plain)
		}
		if reason == reasonTruncated && c.err != nil {
			return 0, c.err // the peer hung up or timed out
		}
		if reason != accepted {
			s.transport.refuse(reason, s.RemoteAddr())
			return 0, errReply[reason]
		}
		if plain[0] == ackType { // memberlist probes over TCP after a probe over UDP got no answer
			s.transport.refuse(reasonUDP, s.RemoteAddr())
		}
		s.ready, s.checked = frame, true
	}
	if len(s.ready) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// Write implements net.Conn.
func (s *stream) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.transport.sent.Add(uint64(n))
	return n, err
}

// Close implements net.Conn. It may be called more than once.
func (s *stream) Close() error { return s.closed() }

// counter counts the bytes read and keeps the last error.
type counter struct {
	io.Reader
	transport *transport
	err       error
}

func (c *counter) Read(b []byte) (n int, err error) {
	n, err = c.Reader.Read(b)
	c.transport.received.Add(uint64(n))
	c.err = err
	return n, err
}
