package conn

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// Conn is a connection of a traffic listener, or a stream of one. It belongs to the goroutine that serves it,
// which is the only one that closes it. Each part says who else may touch it. The fields that every request
// reads come first.
type Conn struct {
	net.Conn
	addr  netip.Addr // of the client: the peer, unless a PROXY header names another one
	conns *Conns

	activity           // its phase: any goroutine may read it
	orders   orders    // from others: any goroutine may give them
	out      output    // its answers
	in       input     // what was read from it
	large    largeHead // a head that needs the larger reader
	awaits   awaited   // what its request waits for: any goroutine may end that
	entry    entry     // its state in Conns: guarded by conns.mu
	parking  parking   // how it gives up its goroutine

	// Set before others see it.
	options *Options // of its listener when it was accepted; nil for a stream
	from    *Listener
	opening *opening // what comes before its first request; nil: nothing
	parent  *Session // the session of a stream; nil: not a stream
	atDoor  bool     // it has no goroutine and no slot: the goroutine that accepts connections answers it
}

// Close implements net.Conn and does nothing: fasthttp calls it when it is done,
// and [Listener.serve] decides whether the connection goes on.
func (c *Conn) Close() error { return nil }

// orders are what other goroutines want a connection to do. Any goroutine may give them. The connection's own
// checks them when a deadline in the past has woken it, and before it answers; some it gives itself, or takes
// back.
type orders struct {
	leave   atomic.Bool // its next answer is its last
	woken   atomic.Bool // a read deadline was set to make it read again
	evicted atomic.Bool // dismissed to make room, or reset
	reset   atomic.Bool // see Reset
}

// end reports whether the server wants the connection to end.
func (o *orders) end() bool { return o.evicted.Load() || o.leave.Load() }

// dismiss makes the connection end: at once if no request has begun, else with
// the answer. Other goroutines call it.
func (c *Conn) dismiss() {
	c.orders.leave.Store(true)
	c.wake()
}

// wake makes the connection end if nothing is left to read but the client's FIN. All that
// has been read by then is answered. Other goroutines call it.
func (c *Conn) wake() {
	c.orders.woken.Store(true)
	_ = c.SetReadDeadline(longAgo)
	c.resume()
}

// interrupt ends what the connection is doing. A read ends with a timeout, which is reported to the client; a
// write ends the connection; a request that waits is denied. Other goroutines call it.
func (c *Conn) interrupt(p phase) {
	switch p {
	case writing, opens, streaming:
		_ = c.SetDeadline(longAgo)
	case queued:
		c.awaits.leaveLine()
	case asking, tunneling:
		c.awaits.giveUp()
	default:
		_ = c.SetReadDeadline(longAgo)
		c.resume()
	}
}

// finish closes the socket.
func (c *Conn) finish() {
	nc := c.Conn
	if o := c.opening; o != nil && o.tls != nil {
		o.tls.closing.Store(true)
		if !o.tls.secure {
			nc = o.raw
		}
	}
	if !c.out.closed && !c.orders.evicted.Load() && (c.out.unread || c.orders.leave.Load()) {
		c.linger(nc)
	}
	if c.orders.reset.Load() { // after its upstream ended it may get here before Reset reaches the socket
		resetOnClose(c.socket())
	}
	nc.Close()
	c.large, c.in.replay = largeHead{}, nil
}

var (
	longAgo    = time.Unix(1, 0)
	noDeadline time.Time
)
