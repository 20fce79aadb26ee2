package conn

import (
	"net"
	"net/netip"
)

// Reset resets all connections whose peers are in p, whatever they are doing, and returns
// how many there were. Their clients get no further answer. It is for clients whose packets
// the kernel drops from now on: connections would stay open until they time out otherwise, as
// neither side hears of the other any more. Those that are accepted later are the business of
// Limits.Held, which has to hold the peers by the time of the call. A connection that begins
// with a PROXY header is its balancer's, so it stays.
//
// No lock is held while a socket is reset, and nobody waits for a connection's goroutine.
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
	if client := c.client(p.Addr()); client.IsValid() && (p.IsSingleIP() || p.Bits() >= 64) { // of one client only
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

// held reports whether the kernel drops what the peer of a new connection sends.
func (c *Conns) held(cn *Conn) bool {
	return c.limits.Held != nil && !cn.Named() && c.limits.Held(cn.addr)
}

// Named reports whether a PROXY header names the client of the connection, so that its peer
// is somebody else: a balancer. Any goroutine may call it.
func (c *Conn) Named() bool {
	if c.parent != nil {
		c = c.parent.c
	}
	return c.opening != nil && c.opening.header
}

// Forwarded reports whether a request on the connection had a forwarding header. For a
// stream, those that have ended on its connection count too.
func (c *Conn) Forwarded() bool {
	return c.in.gate.forwarded || c.parent != nil && c.parent.forwarded.Load()
}

// Reset resets the connection, of a stream the one that carries it. Its goroutine ends by
// itself: it is told, and what it does with the socket fails from here on. Any goroutine may
// call it, its own too, and again.
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
	c.awaits.giveUp() // before the socket fails, or a tunnel would take that for a client that has half-closed
	if disconnect(c.socket()) == nil {
		c.resume()
		return
	}
	go func() { // Close waits for what the connection's goroutine is doing
		abort(c.socket())
		c.resume()
	}()
}

// abort closes a socket so that its peer gets a reset.
func abort(nc net.Conn) {
	resetOnClose(nc)
	nc.Close()
}

// resetOnClose has the peer of a socket get a reset when that is closed.
func resetOnClose(nc net.Conn) {
	if l, ok := nc.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0)
	}
}

// Resets is how many connections were reset because their peers are banned.
func (c *Conns) Resets() uint64 { return c.resets.Load() }
