package conn

import (
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// poller tells what happens on connections that nobody reads: those whose requests wait, whose
// clients may leave, and parked ones. The sockets are in an epoll instance, which is itself
// one for Go's poller, so that one goroutine waits for all and no thread does. Goroutine and
// instance begin when they are needed first. The zero value is ready.
type poller struct {
	mu     sync.Mutex
	epoll  *os.File          // nil: not needed yet
	fd     int               // of epoll
	closed bool              // for good
	last   uint64            // number given last
	calls  map[uint64]func() // what to call for each socket that is watched, by number
	done   chan struct{}     // closed when the goroutine has ended
}

const (
	// leaves is when a client has closed its side, or reset the connection. A FIN lies behind
	// what has not been read, so that is no matter.
	leaves = unix.EPOLLRDHUP
	// arrives is when there is something to read, which may be that the client has left.
	arrives = unix.EPOLLIN | unix.EPOLLRDHUP
)

// watchLeaving has left called, once, when the client of c closes its side or resets the
// connection, or if it has already. stop ends that, and may be called once.
func (p *poller) watchLeaving(c *Conn, left func()) (stop func(), err error) {
	socket := socketOf(c.socket()) // under TLS, whose records nobody has to read for it
	if socket == nil {
		return readAhead(c, left)
	}
	number, err := p.watch(socket, leaves, left)
	return func() { p.forget(socket, number) }, err
}

// watch has call called once, when one of the events happens on the socket, or if it has
// already. Whoever asks for that has to call forget.
func (p *poller) watch(socket syscall.Conn, events uint32, call func()) (number uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.beginLocked(); err != nil {
		return 0, err
	}
	p.last++
	number = p.last
	event := unix.EpollEvent{Events: events | unix.EPOLLONESHOT, Fd: int32(uint32(number)), Pad: int32(number >> 32)} // both halves
	if err := p.control(socket, unix.EPOLL_CTL_ADD, &event); err != nil {
		return 0, err
	}
	p.calls[number] = call
	return number, nil
}

// forget ends what watch has begun.
func (p *poller) forget(socket syscall.Conn, number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, number)
	if !p.closed {
		_ = p.control(socket, unix.EPOLL_CTL_DEL, nil) // a socket that was closed has gone by itself
	}
}

func (p *poller) control(socket syscall.Conn, op int, event *unix.EpollEvent) error {
	return control(socket, func(fd int) error {
		return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, op, fd, event))
	})
}

// beginLocked opens the epoll instance and starts the goroutine, if that is not done.
func (p *poller) beginLocked() error {
	switch {
	case p.closed:
		return net.ErrClosed
	case p.epoll != nil:
		return nil
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	return p.beginWithLocked(fd)
}

func (p *poller) beginWithLocked(fd int) error {
	_ = unix.SetNonblock(fd, true) // os wants to see it, to have it polled
	epoll := os.NewFile(uintptr(fd), "epoll")
	if err := epoll.SetReadDeadline(noDeadline); err != nil { // Go's poller has refused it
		epoll.Close()
		return err
	}
	raw, err := epoll.SyscallConn()
	if err != nil {
		return err
	}
	p.fd, p.epoll = fd, epoll
	p.calls, p.done = map[uint64]func(){}, make(chan struct{})
	go func() {
		defer close(p.done)
		_ = raw.Read(p.turn) // until close
	}()
	return nil
}

// turn tells of all that has happened by now. It wants to be called again when there is more.
func (p *poller) turn(fd uintptr) (done bool) {
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(int(fd), events[:], 0)
		if err == unix.EINTR {
			continue
		}
		for i := range max(0, n) {
			number := uint64(uint32(events[i].Fd)) | uint64(uint32(events[i].Pad))<<32 // both halves
			p.mu.Lock()
			call := p.calls[number]
			p.mu.Unlock()
			if call != nil { // else nobody wants to know any more
				call()
			}
		}
		if n < len(events) {
			return false
		}
	}
}

// close ends the goroutine and waits for it. Nobody is told anything from then on.
func (p *poller) close() {
	p.mu.Lock()
	p.closed = true
	epoll := p.epoll
	p.mu.Unlock()
	if epoll != nil {
		epoll.Close()
		<-p.done
	}
}

// socketOf returns the socket of a connection, which may be within others; nil if
// there is none.
func socketOf(nc net.Conn) syscall.Conn {
	for {
		if socket, ok := nc.(syscall.Conn); ok {
			return socket
		}
		outer, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = outer.NetConn()
	}
}
