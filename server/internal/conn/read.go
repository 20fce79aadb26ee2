package conn

import (
	"errors"
	"os"
	"slices"
	"time"
)

// input is what was read from a connection, and how far its framing is known. It belongs to the goroutine
// that reads: the connection's, or while an upstream has the request the one that sends its body or the
// client's half of a tunnel.
type input struct {
	served   uint32 // requests handled
	unborn   bool   // fasthttp has it, and no byte of its first request has arrived yet
	stranger bool   // nothing has been read, and a PROXY header would be noted
	gate     gate   // what was read has passed it
	replay   []byte // bytes read before the current reader got the connection; not yet through the gate
}

// again returns bytes that were read earlier.
func (in *input) again(p []byte) int {
	n := copy(p, in.replay)
	if in.replay = in.replay[n:]; len(in.replay) == 0 {
		in.replay = nil // a connection can live for hours
	}
	return n
}

// unread makes bytes be read again.
func (in *input) unread(p []byte) { in.replay = append(slices.Clip(p), in.replay...) }

// complete reports whether the request that is being handled has been read to its end.
func (in *input) complete() bool {
	g := &in.gate
	return g.heads > in.served || g.state == gateRequestLine || g.state == gateClosed || g.wrong > in.served
}

// Read implements net.Conn for fasthttp's reader.
func (c *Conn) Read(p []byte) (int, error) {
	if c.large.special {
		return c.readSpecial(p)
	}
	n, err := c.receive(p)
	if c.in.unborn && n > 0 {
		c.begin(p)
	}
	if n == len(p) {
		c.large.noteFull(p, c.phase())
	}
	return n, err
}

// begin records that the first byte of the first request has arrived in p, which is the whole buffer of
// fasthttp's reader.
func (c *Conn) begin(p []byte) {
	c.in.unborn, c.large.buffer = false, p
	c.arrive(reading, c.conns.tick.Load())
}

// receive reads from the socket, through the gate.
func (c *Conn) receive(p []byte) (int, error) {
	if over, err := c.in.gate.over(); over {
		return 0, err
	}
	n, err := c.receiveRaw(p)
	if n == 0 {
		return 0, err
	}
	if c.in.stranger {
		c.noteStranger(p[:n])
	}
	if n = c.in.gate.pass(p[:n]); n == 0 {
		_, err = c.in.gate.over()
	}
	return n, err
}

// receiveRaw reads from the socket. Another goroutine that wants the connection to end sets a deadline in the
// past. The reading goroutine decides here whether it ends, so that a request that has arrived by then is not
// lost.
func (c *Conn) receiveRaw(p []byte) (int, error) {
	if len(c.in.replay) > 0 {
		return c.in.again(p), nil
	}
	n, err := c.Conn.Read(p)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && (c.orders.leave.Load() || c.orders.woken.Load()) {
		return c.receiveLast(p, err)
	}
	return n, err
}

func (c *Conn) receiveLast(p []byte, timeout error) (int, error) {
	woken := c.orders.woken.Swap(false)
	switch {
	case c.phase().waiting():
		_ = c.SetReadDeadline(time.Time{})
		n, err := c.lastRead(p)
		if errors.Is(err, errPartial) {
			c.enter(reading)
			return c.receiveRaw(p)
		}
		c.out.closed = n == 0
		return n, err
	case woken: // a request has begun: it is answered
		_ = c.SetReadDeadline(time.Time{})
		return c.receiveRaw(p)
	}
	return 0, timeout
}

func (c *Conn) lastRead(p []byte) (int, error) {
	if c.opening != nil && c.opening.tls != nil {
		return c.opening.tls.lastRead(c.Conn, p)
	}
	return lastRead(c.Conn, p)
}
