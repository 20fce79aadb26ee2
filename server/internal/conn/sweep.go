package conn

import (
	"context"
	"time"
)

// Watch sweeps until ctx ends.
func (c *Conns) Watch(ctx context.Context) {
	ticker := time.NewTicker(c.pace())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.resized:
			ticker.Reset(c.pace())
		case <-ticker.C:
			c.sweep()
			c.lookAtQuiet()
		}
	}
}

func (c *Conns) pace() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.period
}

// sweep begins a tick and ends what is overdue by setting a deadline in the past,
// so that a slow client still gets an answer (408). A client that does not read even
// that is cut off after the write timeout.
func (c *Conns) sweep() {
	tick := c.tick.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range c.all.members {
		c.checkLocked(cn, tick)
	}
	for _, cn := range c.gone.members {
		c.checkLocked(cn, tick)
	}
}

// checkLocked ends what is overdue on a connection and on its streams.
func (c *Conns) checkLocked(cn *Conn, tick uint32) {
	c.checkPhaseLocked(cn, tick)
	for _, stream := range cn.entry.streams() {
		c.checkPhaseLocked(stream, tick)
	}
}

func (c *Conns) checkPhaseLocked(cn *Conn, tick uint32) {
	since := cn.since()
	p := since.phase()
	// The tick in which the phase began does not count, so that nobody gets less than the limit. max: the
	// phase may have begun in this very tick.
	age := time.Duration(max(1, since.age(tick))-1) * c.period
	switch limit := c.timeout[p]; {
	case age < limit:
	case p == writing || age >= limit+c.timeout[writing]:
		_ = cn.SetDeadline(longAgo)
		cn.resume()
	case p == idle || p == idleDenied:
		cn.dismiss()
	default:
		cn.interrupt(p)
	}
}

// lookAtQuiet ends waiting connections whose client has half-closed: its FIN came with a request; see
// resident. It checks each connection once after its last request, and parks those that stay quiet. While an
// upstream has a request it checks each time, and interrupts the upstream if the client has left. One
// goroutine calls it.
func (c *Conns) lookAtQuiet() {
	c.parks.giveBack(time.Now())
	tick := c.tick.Load()
	c.mu.Lock()
	after := parkAfter(c.period)
	c.quiet = c.quiet[:0]
	for _, cn := range c.all.members {
		since := cn.since()
		p := since.phase()
		if since.tick() == tick { // another request could begin the same phase in this tick
			continue
		}
		switch {
		case p == asking:
			c.quiet = append(c.quiet, cn)
		case p != idle && p != idleDenied:
		case since != cn.entry.looked, since.age(tick) >= after && since != cn.parking.orderedIn:
			cn.entry.looked = since
			c.quiet = append(c.quiet, cn)
		}
	}
	room := int(c.period/2/time.Millisecond)*parkStep + parkStep // half of the time until the next one
	c.mu.Unlock()
	ordered := 0
	for _, cn := range c.quiet { // without the lock: each is a system call
		switch since := cn.since(); {
		case since.phase() == asking:
			if hasLeft(cn.socket()) {
				cn.awaits.upstream.cut()
			}
		case finWaits(cn.Conn):
			cn.wake() // nothing more: its goroutine may just have read requests
		case since.age(tick) >= after && ordered < room:
			cn.parking.orderedIn = since
			if !c.orderPark(cn) {
				continue
			}
			if ordered++; ordered%parkStep == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
	clear(c.quiet)
}
