package conn

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// parking lets a connection that waits for its next request give up its goroutine, whose stack is most of the
// connection's memory. The sweep orders it for residents that have been quiet for some ticks. Their
// goroutines leave the socket to the [poller] and end; the next byte, or whoever wants the connection to end,
// starts another one ([Conn.resume]).
//
// Like all orders, this one takes a read deadline to be noticed, and it is for residents only. So the sweep
// sets it only while resides is true, and a goroutine that stops being a resident withdraws it before anybody
// else reads.
type parking struct {
	resides   atomic.Bool   // its goroutine waits and answers as a resident, or it is parked
	ordered   atomic.Bool   // it is to park, with a deadline for that; written with Conns.parks.mu
	state     atomic.Uint32 // a parkState
	orderedIn since         // the phase in which it was ordered; used by the sweep

	// Used by the goroutine that parks the connection, and by the next one.
	watched uint64 // number of the watch
	resumed bool   // it was parked, and has not been read since
}

type parkState = uint32

const (
	awake   parkState = iota // has a goroutine
	leaving                  // its goroutine is about to leave it
	called                   // likewise, but it is to stay
	parked                   // has none: whoever changes that has to start one
)

// parks is the sweep's state for parking.
type parks struct {
	mu   sync.Mutex   // held while a connection is ordered to park
	done atomic.Int64 // how many have parked since the last sweep

	// Used by the sweep.
	kept int64     // how many have parked since stacks were last given back
	next time.Time // stacks are not given back earlier
}

const (
	// parkTime is how long a connection is quiet before it is parked, at least four ticks. Parking and
	// resuming takes 20 µs of CPU, twice as much as a request, so those that ask now and then stay.
	parkTime = 4 * time.Second
	// parkStep is how many are parked at once, before others run for a millisecond.
	parkStep = 64
	// giveBackFrom is how many must have parked before Go is asked to return their stacks to the system. On
	// its own it does so only minutes later, as answers make no garbage.
	giveBackFrom = 1024
	// giveBackAfter is how long hardly any more must have parked by then.
	giveBackAfter = 2 * time.Second
	// giveBackEvery is the least time between two requests for that: each collects all garbage.
	giveBackEvery = time.Minute
)

// parkAfter is parkTime in ticks.
func parkAfter(period time.Duration) uint32 { return uint32(max(4, (parkTime+period-1)/period)) }

// orderPark orders a connection to park if a resident has it, and reports whether it did. The sweep calls it.
func (c *Conns) orderPark(cn *Conn) bool {
	c.parks.mu.Lock()
	defer c.parks.mu.Unlock()
	if cn.parking.ordered.Load() || cn.parking.state.Load() != awake { // it has not noticed the last order yet, or just has
		return false
	}
	cn.parking.ordered.Store(true)
	if !cn.parking.resides.Load() { // its goroutine has left, and may not check for an order again
		cn.parking.ordered.Store(false)
		return false
	}
	_ = cn.SetReadDeadline(longAgo)
	return true
}

// giveBack returns the stacks of parked connections to the system after many have parked. The sweep calls it.
func (p *parks) giveBack(now time.Time) {
	more := p.done.Swap(0)
	p.kept += more
	if quiet := now.Add(giveBackAfter); more > p.kept/16 && p.next.Before(quiet) {
		p.next = quiet
	}
	if p.kept >= giveBackFrom && !now.Before(p.next) {
		p.kept, p.next = 0, now.Add(giveBackEvery)
		go debug.FreeOSMemory()
	}
}

// takeOrder withdraws the order to park, with its deadline. It reports whether there was one and nobody wants
// the connection to end.
func (c *Conn) takeOrder() (ordered bool) {
	if !c.parking.ordered.Load() {
		return false
	}
	c.conns.parks.mu.Lock() // now the deadline is set
	c.parking.ordered.Store(false)
	c.conns.parks.mu.Unlock()
	_ = c.SetReadDeadline(noDeadline)
	if c.wanted() {
		_ = c.SetReadDeadline(longAgo) // the deadline that they set may be gone too
		return false
	}
	return true
}

// wanted reports whether somebody wants the connection to end now, not with its next answer.
func (c *Conn) wanted() bool { return c.orders.woken.Load() || c.orders.evicted.Load() }

// moveOut is for a resident that leaves the connection to others.
func (c *Conn) moveOut() {
	c.parking.resides.Store(false)
	c.takeOrder()
}

// park leaves a connection to the poller. If it reports true the caller must not touch it any more.
func (c *Conn) park() bool {
	p := &c.parking
	p.state.Store(leaving)
	if len(c.in.replay) > 0 || c.wanted() { // whoever wanted it may have called resume earlier
		p.state.Store(awake)
		return false
	}
	var err error
	if p.watched, err = c.conns.poller.watch(socketOf(c.Conn), arrives, c.resume); err != nil {
		p.state.Store(awake)
		return false
	}
	done := &c.conns.parks.done
	if p.state.CompareAndSwap(leaving, parked) {
		done.Add(1)
		return true
	}
	p.state.Store(awake)
	c.forget()
	return false
}

func (c *Conn) forget() { c.conns.poller.forget(socketOf(c.Conn), c.parking.watched) }

// resume gives a parked connection a goroutine, and does nothing to others. Any goroutine may call it.
func (c *Conn) resume() {
	if p := &c.parking.state; !p.CompareAndSwap(leaving, called) && p.CompareAndSwap(parked, awake) {
		go func() {
			c.forget()
			c.parking.resumed = true
			c.from.goOn(c)
		}()
	}
}
