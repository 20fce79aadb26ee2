package conn

import (
	"net"
	"net/netip"

	"github.com/valyala/fasthttp"
)

// These functions are for the handler of a request, which runs on its connection's goroutine.

// Of returns the connection of a request; nil if it is not one of a [Listener].
func Of(ctx *fasthttp.RequestCtx) *Conn {
	c, _ := ctx.Conn().(*Conn)
	return c
}

// PeerAddr is the address of a request's TCP peer; invalid for other peers, for
// which fasthttp's RemoteIP returns 0.0.0.0, a key that they would all share.
func PeerAddr(ctx *fasthttp.RequestCtx) netip.Addr {
	if c := Of(ctx); c != nil {
		return c.addr
	}
	return tcpAddr(ctx.RemoteAddr())
}

// clientOf is the address of the peer of a new connection.
func clientOf(nc net.Conn) netip.Addr {
	if s, ok := nc.(interface{ client() netip.Addr }); ok { // knows it without a call
		return s.client()
	}
	return peerAddr(nc.RemoteAddr())
}

// peerAddr is the address of the peer of a connection. For a Unix socket it is this machine, whoever
// connected: only the permissions of the path control that.
func peerAddr(a net.Addr) netip.Addr {
	if _, ok := a.(*net.UnixAddr); ok {
		return thisMachine
	}
	return tcpAddr(a)
}

// thisMachine is the address of the peers of Unix sockets, so that settings for a proxy on loopback also
// apply to one on a socket.
var thisMachine = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// tcpAddr omits the zone: it names our interface, not the client.
func tcpAddr(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(tcp.IP)
	return addr.Unmap()
}

// BeginRequest records that the next request is being handled. It returns the violation that the gate has
// seen in it so far, or nil, and whether a request on this connection had a forwarding header.
func (c *Conn) BeginRequest() (v *Violation, forwarded bool) {
	c.enter(writing)
	c.in.served++
	return c.Violation(), c.in.gate.forwarded
}

// BeginBody records that the body of the request is being read. It reports whether the connection has to end
// with the answer, because the larger reader may take bytes of the next request too.
func (c *Conn) BeginBody() (last bool) {
	c.large.head = nil
	c.enter(body)
	return c.large.active
}

// EndBody records that the body has been read, or is not going to be.
func (c *Conn) EndBody() { c.enter(writing) }

// BodyComplete reports whether the request that is being handled has been read
// to its end. fasthttp takes the end of the connection for the end of a trailer.
func (c *Conn) BodyComplete() bool { return c.in.complete() }

// Violation returns what the gate has found wrong with the request that is being handled, including what was
// read of its body, or nil.
func (c *Conn) Violation() *Violation { return c.in.gate.violation(c.in.served) }

// Unparsed returns why fasthttp could not parse a request: what the gate has found wrong with it, else err.
// nil: it must not be answered, as the larger reader will read the head again, or the client is gone.
func (c *Conn) Unparsed(err error) (cause error) {
	if c.large.refused(err) {
		c.out.mute = true // drops fasthttp's answer
		return nil
	}
	if c.out.closed {
		return nil
	}
	if v := c.in.gate.violation(c.in.served + 1); v != nil {
		return v
	}
	return err
}

// Denied records that the answer is a denial. It reports whether the connection must end with it, because
// connections are nearly full: a flooding client then has to connect again.
func (c *Conn) Denied() (last bool) {
	c.out.denied = true
	if c.conns.crowded.Load() && !c.orders.leave.Load() {
		c.conns.dismissed[reasonDenied].Add(1)
		return true
	}
	return false
}

// Quiet reports whether no byte of the next request has come yet.
func (c *Conn) Quiet() bool { return c.phase().waiting() }

// IsStream reports whether the request came on a connection that carries many. The rest of its body delays no
// other request.
func (c *Conn) IsStream() bool { return c.parent != nil }

// Reused reports whether the request that is being handled is not the connection's first.
func (c *Conn) Reused() bool { return c.in.served > 1 }

// Addr is the address of the client; invalid if it has none.
func (c *Conn) Addr() netip.Addr { return c.addr }

// LastRequest reports whether the request that is being handled must be the last
// of its connection. It is known once the body has been read.
func (c *Conn) LastRequest() bool { return c.orders.leave.Load() || c.in.served == c.in.gate.last }

// LeaveUnread is [Conn.LeaveUnread] for a request that fasthttp has.
func LeaveUnread(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	if c := Of(ctx); c != nil {
		c.LeaveUnread()
	}
}
