package conn

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
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
	resides atomic.Bool   // its goroutine waits and answers as a resident, or it is parked
	ordered atomic.Bool   // it is to park, and has a deadline for that; written with Conns.parks.mu
	state   atomic.Uint32 // a parkState
	told    since         // the phase in which it was ordered; of the sweep

	// Of the goroutine that parks the connection, and of the next one.
	watched uint64 // number of the watch
	resumed bool   // it was parked, and has not been read since
}

type parkState = uint32

const (
	awake   parkState = iota // has a goroutine
	leaving                  // its goroutine is about to leave it
	called                   // the same, and is to stay
	parked                   // has none: who changes that has to start one
)

// parks is what a sweep has to do with parking.
type parks struct {
	mu   sync.Mutex   // held while a connection is told to park
	done atomic.Int64 // how many have parked since the last sweep

	// Of the sweep.
	kept int64     // how many have parked since stacks were given back
	next time.Time // stacks are not given back before it
}

const (
	// parkTime is how long a connection is quiet before it is parked, four ticks at least. To park
	// and to resume it take 20 µs of CPU, twice what a request takes: those that ask now and then
	// stay.
	parkTime = 4 * time.Second
	// parkStep is how many are parked at once, before others get a turn of a millisecond.
	parkStep = 64
	// giveBackFrom are as many as it takes for Go to be asked to give their stacks back to the
	// system. By itself it does that minutes later, as answers make no garbage.
	giveBackFrom = 1024
	// giveBackAfter is for how long hardly any more have parked then.
	giveBackAfter = 2 * time.Second
	// giveBackEvery is how long it lasts until it is asked again: it collects all garbage for it.
	giveBackEvery = time.Minute
)

// parkAfter is parkTime in ticks.
func parkAfter(period time.Duration) uint32 { return uint32(max(4, (parkTime+period-1)/period)) }

// orderPark has a connection park if a resident has it, and reports whether. The sweep calls it.
func (c *Conns) orderPark(cn *Conn) bool {
	c.parks.mu.Lock()
	defer c.parks.mu.Unlock()
	if cn.parking.ordered.Load() || cn.parking.state.Load() != awake { // it has not heard the last one yet, or has
		return false
	}
	cn.parking.ordered.Store(true)
	if !cn.parking.resides.Load() { // its goroutine has left, and may not look for an order again
		cn.parking.ordered.Store(false)
		return false
	}
	_ = cn.SetReadDeadline(longAgo)
	return true
}

// giveBack gives the stacks of those that have parked back to the system, once a crowd has. The
// sweep calls it.
func (p *parks) giveBack(now time.Time) {
	more := p.done.Swap(0)
	p.kept += more
	if settled := now.Add(giveBackAfter); more > p.kept/16 && p.next.Before(settled) {
		p.next = settled
	}
	if p.kept >= giveBackFrom && !now.Before(p.next) {
		p.kept, p.next = 0, now.Add(giveBackEvery)
		go debug.FreeOSMemory()
	}
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
		_ = c.SetReadDeadline(longAgo) // what they have set may be gone too
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

// park leaves a connection to the poller. If it reports true the caller must not touch it any
// more.
func (c *Conn) park() bool {
	p := &c.parking
	p.state.Store(leaving)
	if len(c.in.replay) > 0 || c.wanted() { // whoever wanted it may have called resume before that
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

// resume gives a parked connection a goroutine, and does nothing to others. Any goroutine may
// call it.
func (c *Conn) resume() {
	if p := &c.parking.state; !p.CompareAndSwap(leaving, called) && p.CompareAndSwap(parked, awake) {
		go func() {
			c.forget()
			c.parking.resumed = true
			c.from.goOn(c)
		}()
	}
}
