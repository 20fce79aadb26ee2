package conn

import (
	"runtime/debug"
	"sync/atomic"
)

// parking is how a connection that waits for its next request comes to have no goroutine, whose
// stack is most of what it holds. The sweep orders it for residents that nobody has used for some
// ticks. Their goroutines leave the socket to the [poller] and end; the next byte, or whoever
// wants the connection to end, starts another one ([Conn.resume]).
//
// An order takes a read deadline to be heard, as all orders do, and is for residents alone. So
// the sweep sets it only while resides is true, and who was a resident takes it back before
// anybody else reads.
type parking struct {
	resides atomic.Bool   // the goroutine waits and answers as a resident
	ordered atomic.Bool   // it is to park; set to true with Conns.parks.mu
	state   atomic.Uint32 // a parkState
	watched uint64        // number of the watch; of whose goroutine it is, as is resumed
	resumed bool          // it was parked, and has not been read since
}

type parkState = uint32

const (
	awake  parkState = iota // has a goroutine
	parks                   // its goroutine is about to leave it
	called                  // the same, and is to stay
	parked                  // has none: who changes that has to start one
)

const (
	// parkAfter is how many ticks a connection is quiet before it is parked. To park and to
	// resume it take 20 µs of CPU, twice what a request takes: those that ask now and then stay.
	parkAfter = 4
	// parkMany are as many as it takes for Go to be asked to give their stacks back to the system.
	// By itself it does that minutes later, as answers make no garbage.
	parkMany = 1024
)

// orderPark has a connection park if a resident has it. The sweep calls it.
func (c *Conns) orderPark(cn *Conn) {
	c.parks.mu.Lock()
	defer c.parks.mu.Unlock()
	cn.parking.ordered.Store(true)
	if !cn.parking.resides.Load() { // since now: nobody may take the order back any more
		cn.parking.ordered.Store(false)
		return
	}
	_ = cn.SetReadDeadline(longAgo)
	c.parks.ordered++
}

// giveBack gives the stacks of those that were parked back to the system, when hardly any more are
// than in the ticks before: not all the time where some always come and some always go. The sweep
// calls it before it has others park.
func (c *Conns) giveBack() {
	p := &c.parks
	p.kept += p.ordered
	if p.kept >= parkMany && p.ordered <= p.kept/16 {
		p.kept = 0
		go debug.FreeOSMemory()
	}
	p.ordered = 0
}

// takeOrder takes the order to park back, with its deadline. It reports whether there was one,
// and nobody wants the connection to end.
func (c *Conn) takeOrder() (ordered bool) {
	if !c.parking.ordered.Load() {
		return false
	}
	c.conns.parks.mu.Lock() // now the deadline is set
	c.parking.ordered.Store(false)
	c.conns.parks.mu.Unlock()
	_ = c.SetReadDeadline(noDeadline)
	if c.wanted() {
		_ = c.SetReadDeadline(longAgo) // theirs may be gone too
		return false
	}
	return true
}

// wanted reports whether somebody wants the connection to end, and has woken it for that.
func (c *Conn) wanted() bool { return c.orders.woken.Load() || c.orders.evicted.Load() }

// moveOut is for a resident that leaves the connection to others.
func (c *Conn) moveOut() {
	c.parking.resides.Store(false)
	c.takeOrder()
}

// park leaves a connection to the poller. If it reports true the caller must not touch it any
// more.
func (c *Conn) park() bool {
	p := &c.parking
	p.state.Store(parks)
	if len(c.in.replay) > 0 || c.wanted() { // whoever wanted it may have called resume before that
		p.state.Store(awake)
		return false
	}
	var err error
	if p.watched, err = c.conns.poller.watch(socketOf(c.Conn), arrives, c.resume); err != nil {
		p.state.Store(awake)
		return false
	}
	if p.state.CompareAndSwap(parks, parked) {
		return true
	}
	p.state.Store(awake)
	c.forget()
	return false
}

func (c *Conn) forget() { c.conns.poller.forget(socketOf(c.Conn), c.parking.watched) }

// resume gives a parked connection a goroutine, and does nothing to others. Any goroutine may
// call it.
func (c *Conn) resume() {
	if p := &c.parking.state; !p.CompareAndSwap(parks, called) && p.CompareAndSwap(parked, awake) {
		go func() {
			c.forget()
			c.parking.resumed = true
			c.from.goOn(c)
		}()
	}
}
