package conn

import (
	"net"
	"sync"
	"time"
)

// output is what happens to the answers of a connection. It belongs to its goroutine.
type output struct {
	unsent unsent // earlier answers that have not been sent; nil: none
	denied bool   // the last answer was a denial
	mute   bool   // writes are dropped
	unread bool   // bytes of the last request may still arrive
	closed bool   // no answer is possible any more
}

// unsent are answers that are sent together with the next one.
type unsent interface {
	flush() bool // sends them, and reports whether the client took them all
	skip() int   // how many of their bytes were sent; none later
}

// after is the phase that follows an answer.
func (o *output) after() phase {
	if !o.denied {
		return idle
	}
	o.denied = false
	return idleDenied
}

// writeStep is how many bytes a client must take within the write timeout.
const writeStep = 16 << 10

// Write implements net.Conn. Each step restarts the phase of writing: the timeout bounds the time without
// progress, not that of the whole response.
func (c *Conn) Write(p []byte) (n int, err error) {
	if c.out.mute {
		return len(p), nil
	}
	for len(p)-n > writeStep {
		m, err := c.Conn.Write(p[n : n+writeStep])
		if n += m; err != nil {
			return n, err
		}
		c.enter(writing)
	}
	m, err := c.Conn.Write(p[n:])
	return n + m, err
}

// send is [Relay.Send].
func (c *Conn) send(out []byte) ([]byte, error) {
	skip := 0
	if c.out.unsent != nil {
		skip = c.out.unsent.skip()
	}
	if len(out) == skip {
		return out[:0], nil
	}
	c.enter(writing)
	_, err := c.Write(out[skip:])
	return out[:0], err
}

// endAnswer is [Relay.EndAnswer].
func (c *Conn) endAnswer() { c.enter(c.out.after()) }

// LeaveUnread ends the connection with the answer. What the client still sends, for at most a second and 1 MiB,
// is dropped.
func (c *Conn) LeaveUnread() { c.out.unread = true }

const (
	// lingerTime and lingerBytes bound what is read from a client that is still sending after its last
	// answer. Closing at once would reset the connection, which may destroy the answer before the client has
	// read it.
	lingerTime  = time.Second
	lingerBytes = 1 << 20
)

func (c *Conn) linger(nc net.Conn) {
	half, ok := nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	c.enter(lingering)
	_ = c.SetReadDeadline(time.Time{})
	buf := lingerBuffers.Get().(*[4096]byte)
	defer lingerBuffers.Put(buf)
	for total := 0; total < lingerBytes; {
		n, err := nc.Read(buf[:])
		if total += n; err != nil {
			return // the client has closed too, or its time is up
		}
	}
}

var lingerBuffers = sync.Pool{New: func() any { return new([4096]byte) }}
