package load

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spinConn is one connection and the request in flight on it.
type spinConn struct {
	answerReader

	fd        int // -1: to be opened
	state     spinState
	due, sent int64 // ns since start
}

// spinState is what an event on the connection means.
type spinState uint8

const (
	spinFree       spinState = iota
	spinConnecting           // the request goes out when it is open
	spinWaiting              // for the answer
	spinClosing              // answered; the server's FIN is to come
)

// sendNow sends a request that is due by being sent.
func (s *spinner) sendNow(i int32) {
	now := s.now()
	s.send(i, now, now)
}

// send sends a request on a connection, which is opened if need be.
func (s *spinner) send(i int32, due, now int64) {
	c := &s.conns[i]
	c.due, c.sent = due, now
	var err error
	if c.fd < 0 {
		err = s.dial(i)
	}
	if err == nil && c.state != spinConnecting {
		err = s.write(i)
	}
	if err != nil {
		s.fail(i, err)
	}
}

// write sends the request of a connection that is open. One write must take all of it:
// the socket's buffer is empty, since the last answer has come.
func (s *spinner) write(i int32) error {
	c, request := &s.conns[i], s.Request
	if s.isProbe(i) {
		request = s.Probe.Request
	}
	c.state = spinWaiting
	n, err := write(c.fd, request)
	if err == nil && n < len(request) {
		err = io.ErrShortWrite // a kilobyte has room in any socket
	}
	return os.NewSyscallError("write", err)
}

// dial opens a connection without waiting for it. On the loopback device it is
// mostly open when connect returns.
func (s *spinner) dial(i int32) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	c := &s.conns[i]
	c.fd, c.answerReader = fd, answerReader{rest: c.rest[:0]}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	server := &s.server
	if s.isProbe(i) {
		server = &s.probeServer
	} else if s.Sources > 0 {
		// The port is chosen by connect, which may take one that is in use towards
		// other servers: with bind, 28,000 would be all.
		from := Source(s.dialled % s.Sources)
		err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		if err = errors.Join(err, unix.Bind(fd, &unix.SockaddrInet4{Addr: from})); err != nil {
			return os.NewSyscallError("bind", err)
		}
		s.dialled++
	}
	interest := uint32(edges)
	switch err := unix.Connect(fd, server); {
	case errors.Is(err, unix.EINPROGRESS):
		c.state, interest = spinConnecting, unix.EPOLLOUT
	case err != nil:
		return os.NewSyscallError("connect", err)
	default:
		c.state = spinFree
	}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: interest, Fd: i}))
}

// drop closes a connection that is open.
func (s *spinner) drop(c *spinConn) {
	if c.fd >= 0 {
		_ = unix.Close(c.fd) // which takes it out of epoll too
		c.fd = -1
	}
}

// edges is what epoll tells of an open connection: once for each arrival. It would
// look at every connection twice if it told until all was read.
const edges = unix.EPOLLIN | unix.EPOLLET

// event handles what epoll says of a connection. Its error ends the run.
func (s *spinner) event(i int32) error {
	c := &s.conns[i]
	if c.state == spinConnecting {
		s.connected(i)
		return nil
	}
	for {
		n, err := read(c.fd, s.buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			s.ended(i, os.NewSyscallError("read", err))
			return nil
		case n == 0:
			s.ended(i, io.ErrUnexpectedEOF)
			return nil
		}
		if c.state != spinWaiting {
			return nonsensef("%d bytes after the answer", n)
		}
		a, done, err := c.read(s.buf[:n])
		if err != nil {
			return err
		}
		if done {
			s.answered(i, a)
		}
		// What is left to read would not be told again: the rest of a long answer, and
		// the FIN that came with one.
		if c.state != spinClosing && (done || n < len(s.buf)) {
			return nil
		}
	}
}

// connected sends the request that a connection was opened for.
func (s *spinner) connected(i int32) {
	c := &s.conns[i]
	code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	if err == nil {
		err = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_MOD, c.fd, &unix.EpollEvent{Events: edges, Fd: i})
	}
	if err != nil {
		s.fail(i, os.NewSyscallError("connect", err))
	} else if err := s.write(i); err != nil {
		s.fail(i, err)
	}
}

// answered counts an answer that is complete, and goes on.
func (s *spinner) answered(i int32, a answer) {
	c, now := &s.conns[i], s.now()
	if s.isProbe(i) {
		Record(s.probed, time.Duration(now-c.due))
		if Denial(a.status) {
			s.out.ProbeDenied++
		}
		c.state = spinFree
		return
	}
	s.out.Ever++
	s.status[a.status]++
	Record(s.latency, time.Duration(now-c.due))
	if s.Rate > 0 { // else it is the same
		Record(s.service, time.Duration(now-c.sent))
	}
	if s.Leave {
		s.drop(c)
		s.next(i)
		return
	}
	if a.close || s.Reconnect {
		// Whoever closes first keeps the port busy for a minute: let the server.
		c.state = spinClosing
		return
	}
	s.next(i)
}

// next goes on with a connection that has its answer.
func (s *spinner) next(i int32) {
	s.conns[i].state = spinFree
	if s.closed {
		s.sendNow(i)
	} else {
		s.release(i)
	}
}

// ended handles a connection that the server has closed.
func (s *spinner) ended(i int32, err error) {
	c := &s.conns[i]
	switch c.state {
	case spinWaiting:
		s.fail(i, err)
	case spinClosing:
		s.drop(c)
		s.next(i)
	default: // nothing was under way; the next request opens it again
		s.drop(c)
	}
}

// fail counts a request without an answer, and has its connection replaced.
func (s *spinner) fail(i int32, err error) {
	s.failed(err)
	c := &s.conns[i]
	s.drop(c)
	c.state = spinFree
	if s.isProbe(i) {
		return // sent again when the next one is due
	}
	if s.closed {
		s.again = append(s.again, i)
	} else {
		s.release(i)
	}
}

// failed counts; the last reason is enough to find out why.
func (s *spinner) failed(err error) {
	s.out.Failed++
	s.out.Failure = err.Error()
}

// read and write are those of package unix without what tells Go's scheduler of a call
// that may block: these do not, and no other goroutine waits for the thread.
func read(fd int, b []byte) (int, error) { return transfer(unix.SYS_READ, fd, b) }

func write(fd int, b []byte) (int, error) { return transfer(unix.SYS_WRITE, fd, b) }

func transfer(call uintptr, fd int, b []byte) (int, error) {
	n, _, e := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))) // as package unix does
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// sockaddr parses an address as servers are started with: no names, no IPv6.
func sockaddr(addr string) (unix.SockaddrInet4, error) {
	a, err := netip.ParseAddrPort(addr)
	if err != nil || !a.Addr().Is4() {
		return unix.SockaddrInet4{}, fmt.Errorf("bench: %q: want an IPv4 address and a port", addr)
	}
	return unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, nil
}
