package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// dial uses room for a new connection, or an idle one that has turned up. It tries one
// server after the other, each once.
func (p *Pool) dial(cancel <-chan struct{}, fresh bool) (*Conn, error) {
	var tried []*server
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			p.release()
			return nil, ErrClosed
		}
		s := p.chooseLocked(tried)
		if !fresh && s.idle.newest != nil {
			c := s.idle.newest
			s.idle.remove(c)
			p.lendLocked(c)
			p.mu.Unlock()
			p.release()
			return c, nil
		}
		c := &Conn{pool: p, server: s, lent: true}
		s.beginLocked(c)
		s.dials++
		p.sweepLocked()
		p.mu.Unlock()

		began := time.Now()
		err := c.dial(cancel)
		if err != ErrCanceled { //nolint:errorlint // made by Conn.dial
			s.connect.Observe(time.Since(began))
		}
		if err == nil {
			p.mu.Lock()
			s.requests++
			p.mu.Unlock()
			return c, nil
		}
		last := p.dialFailed(c, err)
		if tried = append(tried, s); last == nil {
			p.release()
			return nil, ErrCanceled
		} else if len(tried) == len(p.servers) {
			p.release()
			return nil, last
		}
	}
}

// dialFailed notes that a server could not be connected to. It returns nil if it was not
// meant to be any more, since the client has gone.
func (p *Pool) dialFailed(c *Conn, err error) *DialError {
	s := c.server
	p.mu.Lock()
	c.returnLocked()
	if err == ErrCanceled { //nolint:errorlint // made by Conn.dial
		s.dialErrors[dialLeft]++
		p.mu.Unlock()
		return nil
	}
	class := classOf(err)
	s.dialErrors[class]++
	var out ejection
	if class != dialLocal {
		out = s.failLocked(p, c.era)
	}
	p.mu.Unlock()
	p.carryOut(s, out)
	return &DialError{Server: s.Name, Timeout: class == dialTimeout, Err: err, class: class}
}

// dial connects a new connection, and shakes hands.
func (c *Conn) dial(cancel <-chan struct{}) error {
	config := &c.pool.config
	ctx, stop := context.WithTimeout(context.Background(), config.ConnectTimeout)
	defer stop()
	if cancel != nil {
		go func() {
			select {
			case <-cancel:
				stop()
			case <-ctx.Done():
			}
		}()
	}
	socket, err := config.dial(ctx, c.server.Network, c.server.Address)
	if err == nil {
		c.open(socket)
		if through, ok := c.nc.(*tls.Conn); ok {
			if err = through.HandshakeContext(ctx); err != nil {
				socket.Close()
			}
		}
	}
	if err != nil && ctx.Err() == context.Canceled {
		return ErrCanceled
	}
	return err
}

// open prepares the connection for use.
func (c *Conn) open(socket net.Conn) {
	c.socket = socket
	c.nc = socket
	if c.server.TLS != nil {
		c.under = &pollable{Conn: socket}
		c.nc = tls.Client(c.under, c.server.TLS)
		return
	}
	c.openRaw()
}
