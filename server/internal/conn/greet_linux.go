//go:build linux && (amd64 || arm64)

package conn

import (
	"bytes"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/nowait"
)

// greet answers the connection at the door, or keeps it.
func (d *door) greet() {
	read := 0
	if d.mayAnswer() {
		var got arrival
		if read, got = d.read(&d.sock); got == gone {
			d.close(d.sock)
			return
		}
		if d.answer(d.buf[:read]) {
			return
		}
	}
	d.keep(d.buf[:read])
}

func (d *door) read(s *socket) (n int, got arrival) {
	raw := rawSocket{fd: s.fd}
	return raw.read(d.buf)
}

// mayAnswer reports whether the first bytes of the connection are a request that may be answered here.
func (d *door) mayAnswer() bool {
	l, o := d.l, d.l.options.Load()
	d.conn = Conn{Conn: &d.sock, addr: d.sock.client(), conns: l.conns, from: l, options: o, atDoor: true}
	if l.conns.drains.Load() {
		d.conn.orders.leave.Store(true)
	}
	return l.answerNow != nil && o.TLS == nil && !o.trusts(d.conn.addr) && !l.conns.held(&d.conn)
}

// answer answers the request, and reports whether it did. The connection has then been passed on or closed.
func (d *door) answer(request []byte) (done bool) {
	n, what := d.head.read(request)
	if what != whole || n != len(request) {
		return false
	}
	c := &d.conn
	c.in.gate.skip(&d.head)
	var last, ok bool
	if d.out, last, ok = d.l.answerNow(d.out[:0], c, &d.head); !ok {
		return false
	}
	if d.l.conns.held(c) { // since now
		c.Reset()
	}
	if c.orders.reset.Load() {
		_ = d.sock.SetLinger(0)
		d.close(d.sock)
		return true
	}
	sent := 0
	if last {
		sent, _ = nowait.SendLast(d.sock.fd, d.out)
	} else {
		sent, _ = nowait.Send(d.sock.fd, d.out)
	}
	switch rest := d.out[sent:]; {
	case len(rest) > 0 || c.out.unread || last && c.orders.leave.Load(): // the client does not know that it is the last
		d.finish(bytes.Clone(rest), last)
	case last:
		d.close(d.sock)
	default:
		d.rest(resting{d.sock, c.options, c.in.gate, c.out.after()})
	}
	return true
}

// close ends a connection that needs nothing any more.
func (d *door) close(s socket) {
	nowait.Close(s.fd)
	d.l.conns.atDoor.Add(1)
}

// keep has the connection served, starting with what was read.
func (d *door) keep(read []byte) {
	nc, err := d.sock.keep()
	if err != nil {
		d.l.conns.acceptFailed(err)
		return
	}
	if c := d.l.take(nc, d.conn.options); c != nil {
		c.in.replay = cloneOf(read)
		go d.l.serve(c)
	}
}

// finish makes a goroutine send the rest of an answer: the client does not take it all at once, or is still
// sending. Then the connection ends if the answer is its last.
func (d *door) finish(rest []byte, last bool) {
	c := d.place(resting{d.sock, d.conn.options, d.conn.in.gate, writing})
	if c == nil {
		return
	}
	c.out.unread, c.out.denied = d.conn.out.unread, d.conn.out.denied
	go func() {
		if _, err := c.send(rest); err == nil && !last {
			c.endAnswer()
			d.l.serve(c)
			return
		}
		defer c.conns.remove(c)
		c.finish()
	}()
}

// resting is a connection that was answered. Most clients of a flood leave after that, so it stays at the
// door for a moment, without a slot, a goroutine or the poller.
type resting struct {
	socket
	options *Options
	gate    gate // has seen one request
	after   phase
}

const (
	maxResting = 64
	// restTime is how long an idle door waits before it checks which resting connections have ended. A client
	// that stays and asks again waits at most that long.
	restTime = 50 * time.Microsecond
)

// rest makes a connection rest. If there are too many, the oldest one is closed or kept.
func (d *door) rest(r resting) {
	if len(d.resting) == maxResting {
		d.look(&d.resting[0])
		d.resting = d.resting[:copy(d.resting, d.resting[1:])]
	}
	d.resting = append(d.resting, r)
}

// lookAtAll closes resting connections whose clients have gone, and keeps the others.
func (d *door) lookAtAll() {
	for i := range d.resting {
		d.look(&d.resting[i])
	}
	clear(d.resting)
	d.resting = d.resting[:0]
}

// look closes a connection whose client has gone, or has it served, starting with what was sent since.
func (d *door) look(r *resting) {
	read, got := d.read(&r.socket)
	if got == gone {
		d.close(r.socket)
		return
	}
	if c := d.place(*r); c != nil {
		c.in.replay = cloneOf(d.buf[:read])
		go d.l.serve(c)
	}
}

// place makes room for a connection that was answered once. If there is none it returns nil, and the
// connection ends.
func (d *door) place(r resting) *Conn {
	nc, err := r.socket.keep()
	if err != nil {
		d.l.conns.acceptFailed(err)
		return nil
	}
	c, held := d.l.place(nc, r.options)
	if c == nil {
		if !held {
			_ = nc.Close()
		}
		return nil
	}
	c.in.served, c.in.gate, c.in.stranger = 1, r.gate, false
	c.enter(r.after)
	return c
}

func cloneOf(read []byte) []byte {
	if len(read) == 0 {
		return nil
	}
	return bytes.Clone(read)
}
