package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// client is one source of requests: a connection, replaced when the server
// closes it.
type client struct {
	target *Target
	from   net.IP
	conn   *conn     // nil: to be dialled
	until  time.Time // the connection's deadline
	buf    []byte    // the request
}

// newClients returns n clients, with the source addresses in turn, and
// connects them.
func newClients(ctx context.Context, t *Target, n int, sources []net.IP) ([]*client, error) {
	all := make([]*client, n)
	for i := range all {
		c := &client{target: t}
		if len(sources) > 0 {
			c.from = sources[i%len(sources)]
		}
		all[i] = c
		if err := c.connect(ctx); err != nil {
			closeAll(all[:i])
			return nil, fmt.Errorf("bench: connection %d of %d: %w", i+1, n, err)
		}
	}
	return all, nil
}

func closeAll(all []*client) {
	for _, c := range all {
		c.drop()
	}
}

func (c *client) connect(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	dial := c.target.dial
	if dial == nil {
		dialer := net.Dialer{Timeout: c.target.timeout}
		if c.from != nil {
			dialer.LocalAddr = &net.TCPAddr{IP: c.from}
		}
		dial = dialer.DialContext
	}
	conn, err := dial(ctx, "tcp", c.target.addr)
	if err != nil {
		return err
	}
	c.conn, c.until = newConn(conn), time.Time{}
	return nil
}

func (c *client) drop() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// send writes a request, on a new connection where the last one is gone.
func (c *client) send(ctx context.Context) error {
	err := c.connect(ctx)
	if err == nil {
		err = c.extend(time.Now())
	}
	if err == nil {
		c.buf = c.target.appendRequest(c.buf[:0])
		_, err = c.conn.Write(c.buf)
	}
	if err != nil {
		c.drop()
	}
	return err
}

// receive returns the status of the answer.
func (c *client) receive() (int, error) {
	if c.conn == nil {
		return 0, errors.New("not connected")
	}
	a, err := c.conn.receive()
	if err != nil || a.close {
		c.drop()
	}
	return a.status, err
}

// extend gives the connection the timeout at least, and at most twice that: a
// new deadline for every request would cost as much as the request's parsing.
func (c *client) extend(now time.Time) error {
	if c.until.Sub(now) >= c.target.timeout {
		return nil
	}
	c.until = now.Add(2 * c.target.timeout)
	return c.conn.SetDeadline(c.until)
}
