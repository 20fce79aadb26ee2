package h2

import (
	"net"
	"sync"
)

// single is a listener that accepts one connection, and ends with it.
type single struct {
	conn     *watched
	accepted bool // used by the goroutine that accepts
	once     sync.Once
	closed   chan struct{}
}

// Accept implements net.Listener.
func (l *single) Accept() (net.Conn, error) {
	if !l.accepted {
		l.accepted = true
		return l.conn, nil
	}
	select {
	case <-l.conn.Closed():
	case <-l.closed:
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l *single) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *single) Addr() net.Addr { return l.conn.LocalAddr() }
