package conn

import (
	"net"
	"net/netip"
)

// Reset resets all connections whose peers are in p, whatever they are doing, and returns how many there
// were. Their clients get no further answer. It is for clients whose packets the kernel drops from now on:
// otherwise connections would stay open until they time out, as neither side hears from the other any more.
// Later connections are handled by Limits.Held, which must include the peers by the time of the call. A
// connection that begins with a PROXY header is its balancer's, so it stays.
//
// No lock is held while a socket is reset, and Reset does not wait for a connection's goroutine.
func (c *Conns) Reset(p netip.Prefix) int {
	all := c.ofPeers(p)
	for _, cn := range all {
		cn.Reset()
	}
	return len(all)
}

// ofPeers returns the connections whose peers are in p.
func (c *Conns) ofPeers(p netip.Prefix) (all []*Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	among := c.all.members
	if client := c.client(p.Addr()); client.IsValid() && (p.IsSingleIP() || p.Bits() >= 64) { // has only one client
		among = nil
		if peer := c.peers[client]; peer != nil {
			among = peer.members
		}
	}
	for _, members := range [...][]*Conn{among, c.gone.members} {
		for _, cn := range members {
			if !cn.Named() && p.Contains(cn.addr) {
				all = append(all, cn)
			}
		}
	}
	return all
}

// held reports whether the kernel drops the packets of a new connection's peer.
func (c *Conns) held(cn *Conn) bool {
	return c.limits.Held != nil && !cn.Named() && c.limits.Held(cn.addr)
}

// Named reports whether a PROXY header names the client of the connection, so that its peer is a balancer.
// Any goroutine may call it.
func (c *Conn) Named() bool {
	if c.parent != nil {
		c = c.parent.c
	}
	return c.opening != nil && c.opening.header
}

// Forwarded reports whether a request on the connection had a forwarding header. For a stream, ended streams
// on its connection count too.
func (c *Conn) Forwarded() bool {
	return c.in.gate.forwarded || c.parent != nil && c.parent.forwarded.Load()
}

// Reset resets the connection, or the one that carries the stream. Its goroutine ends because its order says
// so and the socket fails from here on. Any goroutine may call it, its own too, and repeatedly.
func (c *Conn) Reset() {
	if c.parent != nil {
		c = c.parent.c
	}
	if c.orders.reset.Swap(true) {
		return
	}
	c.conns.resets.Add(1)
	c.orders.evicted.Store(true)
	if c.atDoor {
		return // its caller closes it
	}
	c.awaits.giveUp() // before the socket fails, or a tunnel would think that the client has half-closed
	if disconnect(c.socket()) == nil {
		c.resume()
		return
	}
	go func() { // Close waits for the connection's goroutine
		abort(c.socket())
		c.resume()
	}()
}

// abort closes a socket so that its peer gets a reset.
func abort(nc net.Conn) {
	resetOnClose(nc)
	nc.Close()
}

// resetOnClose makes closing a socket send a reset.
func resetOnClose(nc net.Conn) {
	if l, ok := nc.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0)
	}
}

// Resets returns how many connections were reset because their peers are banned.
func (c *Conns) Resets() uint64 { return c.resets.Load() }
