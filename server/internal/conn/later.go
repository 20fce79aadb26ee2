package conn

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/internal/unixsocket"
)

// InUse reports whether an error of [Listen] means that another process has the address.
func InUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, unixsocket.ErrInUse)
}

// lookAgain is how long a listener waits before it tries to bind its address again.
const lookAgain = 100 * time.Millisecond

// Later is a listener on an address that another process has. Accept binds it when that process releases it.
type Later struct {
	bind   func() (net.Listener, error)
	addr   net.Addr
	over   chan struct{}
	mu     sync.Mutex
	ln     net.Listener // nil until bound; guarded by mu
	closed bool         // guarded by mu
}

// ListenLater returns a listener that bind will make. addr is its future address.
func ListenLater(addr string, bind func() (net.Listener, error)) *Later {
	l := &Later{bind: bind, addr: unixsocket.Addr(addr), over: make(chan struct{})}
	if tcp, err := net.ResolveTCPAddr("tcp", addr); err == nil {
		l.addr = tcp
	}
	return l
}

// Accept implements net.Listener. An error of bind other than [InUse] is final.
func (l *Later) Accept() (net.Conn, error) {
	for {
		ln, err := l.bound()
		if err == nil {
			return ln.Accept()
		}
		if !InUse(err) {
			return nil, err
		}
		select {
		case <-time.After(lookAgain):
		case <-l.over:
			return nil, net.ErrClosed
		}
	}
}

func (l *Later) bound() (net.Listener, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, net.ErrClosed
	}
	if l.ln != nil {
		return l.ln, nil
	}
	ln, err := l.bind()
	if err == nil {
		l.ln = ln
	}
	return ln, err
}

// Addr implements net.Listener. Before it is bound, the port may be 0.
func (l *Later) Addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ln != nil {
		return l.ln.Addr()
	}
	return l.addr
}

// Close implements net.Listener.
func (l *Later) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.closed = true
	close(l.over)
	if l.ln != nil {
		return l.ln.Close()
	}
	return nil
}
