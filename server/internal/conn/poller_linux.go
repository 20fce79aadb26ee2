package conn

import (
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// poller reports events on connections that nobody reads: those whose requests wait, whose clients may leave,
// and parked ones. The sockets are in an epoll instance, which itself is in Go's poller, so that one
// goroutine waits for all and no thread does. Goroutine and instance begin when first needed. The zero value
// is ready.
type poller struct {
	mu     sync.Mutex
	epoll  *os.File          // nil: not needed yet
	fd     int               // of epoll
	closed bool              // for good
	last   uint64            // last number used
	calls  map[uint64]func() // the callback of each watched socket, by number
	done   chan struct{}     // closed when the goroutine has ended
}

const (
	// leaves is when a client closes its side or resets the connection, even if there is unread data before
	// the FIN.
	leaves = unix.EPOLLRDHUP
	// arrives is when there is something to read, or the client leaves.
	arrives = unix.EPOLLIN | unix.EPOLLRDHUP
)

// watchLeaving makes the poller call left once, when the client of c closes its side or resets the
// connection, or if it already has. stop ends that, and may be called once.
func (p *poller) watchLeaving(c *Conn, left func()) (stop func(), err error) {
	socket := socketOf(c.socket()) // below TLS, whose records need not be read for it
	if socket == nil {
		return readAhead(c, left)
	}
	number, err := p.watch(socket, leaves, left)
	return func() { p.forget(socket, number) }, err
}

// watch makes the poller call call once, when one of the events happens on the socket, or if it already has.
// The caller must call forget.
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
		_ = p.control(socket, unix.EPOLL_CTL_DEL, nil) // closing a socket removes it
	}
}

func (p *poller) control(socket syscall.Conn, op int, event *unix.EpollEvent) error {
	return control(socket, func(fd int) error {
		return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, op, fd, event))
	})
}

// beginLocked opens the epoll instance and starts the goroutine, unless that has been done.
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
	_ = unix.SetNonblock(fd, true) // os polls only such files
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
		_ = raw.Read(p.step) // until close
	}()
	return nil
}

// step calls back for everything that has happened. It wants to be called again when there is more.
func (p *poller) step(fd uintptr) (done bool) {
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
			if call != nil { // else nobody is interested any more
				call()
			}
		}
		if n < len(events) {
			return false
		}
	}
}

// close ends the goroutine and waits for it. Nothing is reported from then on.
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

// socketOf returns the socket of a connection, which may be wrapped, or nil if there is none.
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
