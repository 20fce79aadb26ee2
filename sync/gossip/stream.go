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

// accept takes streams, a bounded number at a time: what a stranger sends has
// to be read before it can be told from what a node sends.
func (t *transport) accept() {
	for waits := retryWaits(); ; {
		conn, err := t.tcp.Accept()
		if t.done.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return
		}
		if err != nil { // file descriptors ran out, say
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

// serve hands a stream to memberlist once its message has passed the gate. Whoever
// does not get that far gets no answer: memberlist would encrypt one, and so
// give a stranger something to forge with.
func (t *transport) serve(s *stream) {
	_ = s.SetDeadline(time.Now().Add(streamTimeout))
	frame, plain, reason := t.gate.readOpening(&counter{Reader: s.Conn, of: t})
	if reason == quiet && isQuestion(plain) {
		if answer := t.asked(plain); answer != nil {
			_, _ = s.Write(t.gate.seal(answer))
		}
		_ = s.Close()
		return
	}
	if reason == quiet {
		reason = checkRequest(plain)
	}
	if reason != quiet || t.silent.Load() {
		if reason != quiet && t.done.Err() == nil {
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

// DialAddressTimeout implements memberlist.NodeAwareTransport.
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

// errReply are the answers that memberlist does not get to see.
var errReply = map[string]error{
	reasonKey:       errors.New("its answer is not encrypted with the key of this cluster"),
	reasonTruncated: errors.New("its answer is too short"),
	reasonStreams:   errors.New("its list of members is larger than the limit: max_nodes is too low, or it is no node"),
	reasonMalformed: errors.New("its answer cannot be read"),
	reasonVersion:   errors.New("it speaks another version, or knows a node that does"),
}

// stream is a connection of which memberlist reads one message, an authentic
// one. It counts its bytes, and is cut when the node stops.
type stream struct {
	net.Conn
	of      *transport
	checked bool   // one goroutine reads
	ready   []byte // of the message, not read yet
	closed  func() error
}

func (t *transport) stream(until context.Context, conn net.Conn, released func()) *stream {
	detach := context.AfterFunc(until, func() { conn.Close() })
	return &stream{
		Conn: conn, of: t,
		closed: sync.OnceValue(func() error {
			detach()
			err := conn.Close()
			released()
			return err
		}),
	}
}

// Read implements net.Conn. On a stream that this node opened, the first Read
// reads all of the answer.
func (s *stream) Read(b []byte) (int, error) {
	if !s.checked {
		c := &counter{Reader: s.Conn, of: s.of}
		frame, plain, reason := s.of.gate.readFrame(c)
		if reason == quiet {
			reason = checkReply(plain)
		}
		if reason == reasonTruncated && c.err != nil {
			return 0, c.err // it hung up, or takes too long
		}
		if reason != quiet {
			s.of.refuse(reason, s.RemoteAddr())
			return 0, errReply[reason]
		}
		if plain[0] == ackType { // it did not answer a probe over UDP, so memberlist asked over TCP
			s.of.refuse(reasonUDP, s.RemoteAddr())
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
	s.of.sent.Add(uint64(n))
	return n, err
}

// Close implements net.Conn. It may be called more than once.
func (s *stream) Close() error { return s.closed() }

// counter counts what is read, and keeps the error that ended it.
type counter struct {
	io.Reader
	of  *transport
	err error
}

func (c *counter) Read(b []byte) (n int, err error) {
	n, err = c.Reader.Read(b)
	c.of.received.Add(uint64(n))
	c.err = err
	return n, err
}
