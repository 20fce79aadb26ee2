package conn

import (
	"slices"
	"time"
)

// neverNoted differs from every value of Conn.since.
const neverNoted = 1<<64 - 1

// LastAnswers makes the next answer of every connection its last.
func (c *Conns) LastAnswers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	for _, cn := range c.all.members {
		cn.leave.Store(true)
		cn.noted = neverNoted
		if cn.session != nil {
			for _, stream := range cn.session.streams.members {
				stream.leave.Store(true)
			}
		}
	}
}

// DismissQuiet is for draining. It dismisses the connections that no request has
// used since the last call, or, with all, every connection that waits for a request.
// It returns how many connections are open.
//
// A connection with the phase and tick of the last call was not used in between:
// an answer would have ended it.
func (c *Conns) DismissQuiet(all bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range c.all.members {
		since := cn.since.Load()
		switch p := phase(since >> 32); {
		case p.waiting() && (all || cn.noted == since):
			cn.dismiss()
		case p == opens && all: // no request has begun
			cn.leave.Store(true)
			cn.interrupt(p)
		}
		cn.noted = since
	}
	return len(c.all.members) + len(c.gone.members)
}

// EndTunnels ends the connections that were upgraded, which may go on for ever: those that
// are sending just now end with their next byte.
func (c *Conns) EndTunnels() {
	c.noTunnels.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range c.all.members {
		if cn.phase() == tunneling {
			cn.interrupt(tunneling)
		}
	}
}

// EmptyWithin waits for all connections to end, and reports whether they did.
func (c *Conns) EmptyWithin(most time.Duration) bool {
	for end := time.Now().Add(most); c.Open() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// CloseAll closes all connections and returns how many there were. It does not wait
// for them, as Close does for a resident whose decision is waiting for a store. Who waits
// for a place is denied; after a drain nobody does.
func (c *Conns) CloseAll() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range slices.Concat(c.all.members, c.gone.members) {
		cn.endWait()
		cn.link.cut()
		go cn.socket().Close()
	}
	return len(c.all.members) + len(c.gone.members)
}
