package conn

import (
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// hangups notices that clients leave whose connections nobody reads. The sockets are in an
// epoll instance, which is itself one for Go's poller, so that one goroutine waits for
// all and no thread does. Both begin when they are needed first. The zero value is ready.
type hangups struct {
	mu     sync.Mutex
	epoll  *os.File          // nil: not needed yet
	fd     int               // of epoll
	closed bool              // for good
	last   uint64            // number given last
	left   map[uint64]func() // of those that are watched, by number
	done   chan struct{}     // closed when the goroutine has ended
}

// watch has left called, once, when the client of c closes its side or resets the
// connection, or if it has already. stop ends that, and may be called once.
func (h *hangups) watch(c *Conn, left func()) (stop func(), err error) {
	socket := socketOf(c.socket()) // under TLS, whose records nobody has to read for it
	if socket == nil {
		return readAhead(c, left)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.beginLocked(); err != nil {
		return nil, err
	}
	h.last++
	number := h.last
	// A FIN lies behind what has not been read, so that is no matter. Once is enough.
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(uint32(number)), Pad: int32(number >> 32)} // both halves
	if err := h.control(raw, unix.EPOLL_CTL_ADD, &event); err != nil {
		return nil, err
	}
	h.left[number] = left
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.left, number)
		if !h.closed {
			_ = h.control(raw, unix.EPOLL_CTL_DEL, nil) // a socket that was closed has gone by itself
		}
	}, nil
}

func (h *hangups) control(raw syscall.RawConn, op int, event *unix.EpollEvent) (err error) {
	failed := raw.Control(func(fd uintptr) { err = unix.EpollCtl(h.fd, op, int(fd), event) })
	if failed != nil {
		return failed
	}
	return os.NewSyscallError("epoll_ctl", err)
}

// beginLocked opens the epoll instance and starts the goroutine, if that is not done.
func (h *hangups) beginLocked() error {
	switch {
	case h.closed:
		return net.ErrClosed
	case h.epoll != nil:
		return nil
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	_ = unix.SetNonblock(fd, true) // os wants to see it, to have it polled
	h.fd, h.epoll = fd, os.NewFile(uintptr(fd), "epoll")
	raw, err := h.epoll.SyscallConn()
	if err != nil {
		return err
	}
	h.left, h.done = map[uint64]func(){}, make(chan struct{})
	go func() {
		defer close(h.done)
		_ = raw.Read(h.turn) // until close
	}()
	return nil
}

// turn tells all whose clients have left by now. It wants to be called again when there
// are more.
func (h *hangups) turn(fd uintptr) (done bool) {
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(int(fd), events[:], 0)
		if err == unix.EINTR {
			continue
		}
		for i := range max(0, n) {
			number := uint64(uint32(events[i].Fd)) | uint64(uint32(events[i].Pad))<<32 // both halves
			h.mu.Lock()
			left := h.left[number]
			h.mu.Unlock()
			if left != nil { // else it has its decision
				left()
			}
		}
		if n < len(events) {
			return false
		}
	}
}

// close ends the goroutine and waits for it. Who is watched then is not any more.
func (h *hangups) close() {
	h.mu.Lock()
	h.closed = true
	epoll := h.epoll
	h.mu.Unlock()
	if epoll != nil {
		epoll.Close()
		<-h.done
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
