package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// dial uses room for a new connection, or an idle one that has become available. It tries each server once.
func (p *Pool) dial(fresh bool) (*Conn, error) {
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
		err := c.dial()
		s.connect.Observe(time.Since(began))
		if err == nil {
			p.mu.Lock()
			s.requests++
			p.mu.Unlock()
			return c, nil
		}
		last := p.dialFailed(c, err)
		if tried = append(tried, s); len(tried) == len(p.servers) {
			p.release()
			return nil, last
		}
	}
}

// dialFailed records that a server could not be connected to.
func (p *Pool) dialFailed(c *Conn, err error) *DialError {
	s := c.server
	p.mu.Lock()
	c.returnLocked()
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

// dial connects a new connection, and does the handshake.
func (c *Conn) dial() error {
	config := &c.pool.config
	ctx, stop := context.WithTimeout(context.Background(), config.ConnectTimeout)
	defer stop()
	socket, err := config.dial(ctx, c.server.Network, c.server.Address)
	if err == nil {
		c.open(socket)
		if through, ok := c.nc.(*tls.Conn); ok {
			if err = through.HandshakeContext(ctx); err != nil {
				socket.Close()
			}
		}
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
