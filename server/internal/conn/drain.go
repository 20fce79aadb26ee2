package conn

import (
	"slices"
	"time"
)

// neverNoted differs from every real since.
const neverNoted since = 1<<64 - 1

// LastAnswers makes the next answer of every connection its last.
func (c *Conns) LastAnswers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drains.Store(true)
	c.lastAnswersLocked(nil)
}

// lastAnswersLocked is for the connections of one listener, or of all if it is nil, like the methods below.
func (c *Conns) lastAnswersLocked(l *Listener) {
	for _, cn := range c.all.members {
		if !cn.of(l) {
			continue
		}
		cn.orders.leave.Store(true)
		cn.entry.noted = neverNoted
		for _, stream := range cn.entry.streams() {
			stream.orders.leave.Store(true)
		}
	}
}

// DismissQuiet is for draining. It dismisses the connections that no request has used since the last call or,
// with all, every connection that waits for a request. It returns how many connections are open.
//
// A connection with the phase and tick of the last call was not used in between:
// an answer would have ended it.
func (c *Conns) DismissQuiet(all bool) int { return c.dismissQuiet(nil, all) }

func (c *Conns) dismissQuiet(l *Listener, all bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range c.all.members {
		if !cn.of(l) {
			continue
		}
		since := cn.since()
		switch p := since.phase(); {
		case p.waiting() && (all || cn.entry.noted == since):
			cn.dismiss()
		case p == opens && all: // no request has begun
			cn.orders.leave.Store(true)
			cn.interrupt(p)
		}
		cn.entry.noted = since
	}
	return c.openLocked(l)
}

// of reports whether a connection was accepted by a listener; nil is any.
func (c *Conn) of(l *Listener) bool { return l == nil || c.from == l }

// openLocked is the number of open connections.
func (c *Conns) openLocked(l *Listener) (n int) {
	if l == nil {
		return len(c.all.members) + len(c.gone.members)
	}
	for _, members := range [][]*Conn{c.all.members, c.gone.members} {
		for _, cn := range members {
			if cn.from == l {
				n++
			}
		}
	}
	return n
}

// EndTunnels ends upgraded connections, which might last forever. Those that are sending right now end with
// their next byte.
func (c *Conns) EndTunnels() {
	c.noTunnels.Store(true)
	c.endTunnels(nil)
}

func (c *Conns) endTunnels(l *Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range c.all.members {
		if cn.of(l) && cn.phase() == tunneling {
			cn.interrupt(tunneling)
		}
	}
}

// EmptyWithin waits for all connections to end, and reports whether they did.
func (c *Conns) EmptyWithin(most time.Duration) bool {
	return c.emptyWithin(nil, most, time.Millisecond)
}

// emptyWithin checks again after each step.
func (c *Conns) emptyWithin(l *Listener, most, step time.Duration) bool {
	for end := time.Now().Add(most); c.open(l) > 0; time.Sleep(step) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// CloseAll closes all connections and returns how many there were. It does not wait for them, as Close would
// for a resident whose decision waits for a store. Requests that wait for a slot are denied; after a drain
// there are none.
func (c *Conns) CloseAll() int { return c.closeAll(nil) }

func (c *Conns) closeAll(l *Listener) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range slices.Concat(c.all.members, c.gone.members) {
		if !cn.of(l) {
			continue
		}
		cn.awaits.giveUp()
		go func() {
			cn.socket().Close()
			cn.resume() // not before: it could be about to park
		}()
	}
	return c.openLocked(l)
}
