package upstream

import (
	"net/netip"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/latency"
)

// Pool keeps connections to servers. Make one with [New]. All methods are safe for
// concurrent use.
type Pool struct {
	config Config
	start  time.Time

	mu      sync.Mutex
	closed  bool
	servers []*server
	turn    int // of servers: where the search for the least busy begins
	ejected int // of servers
	open    int // connections and promised room, to all servers
	epoch   int // of the sweep
	line    line

	closing sync.Cond // signals that a connection has been closed to make room

	queued latency.Histogram // time that requests waited in the queue

	sweeping bool          // the goroutine was started
	stop     chan struct{} // closed by Close
	swept    chan struct{} // closed by the goroutine
}

// New returns a pool, which dials on demand.
func New(c Config) *Pool {
	c = c.withDefaults()
	p := &Pool{config: c, start: time.Now(), stop: make(chan struct{}), swept: make(chan struct{})}
	p.line.clients = make(map[netip.Addr]*client)
	p.closing.L = &p.mu
	for i, s := range c.Servers {
		p.servers = append(p.servers, newServer(s, i))
	}
	return p
}

// Waiter is whoever wants a connection.
type Waiter interface {
	// BeginQueue is called when the request has to wait in the queue. The result is closed when it gives up.
	BeginQueue() (cancel <-chan struct{})
}

// Get returns a connection to the server with the fewest in use: an idle one, unless fresh is set, else a new
// one. If there may be no more, or no more for the client, it waits in the queue. w may be nil. who is the
// zero address for an unknown client, which has no share. Its error is ErrQueueFull, ErrQueueTimeout,
// ErrCanceled, ErrClosed or a *[DialError].
func (p *Pool) Get(who netip.Addr, w Waiter, fresh bool) (*Conn, error) {
	p.mu.Lock()
	owner, err := p.enterLocked(who, w)
	if err != nil {
		p.mu.Unlock()
		return nil, err
	}
	c, err := p.connLocked(fresh)
	if err != nil {
		p.leave(owner)
		return nil, err
	}
	c.owner = owner
	return c, nil
}

// connLocked unlocks, and returns a connection for the owner of a turn: there is room for a new one, or there
// are idle ones.
func (p *Pool) connLocked(fresh bool) (*Conn, error) {
	turn := p.turn
	s := p.chooseLocked(nil)
	if !fresh && s.idle.newest != nil {
		c := s.idle.newest
		s.idle.remove(c)
		p.lendLocked(c)
		p.mu.Unlock()
		return c, nil
	}
	p.turn = turn // dial chooses again, or a server without idle connections would never be chosen
	spare := p.roomLocked(s)
	p.mu.Unlock()
	if spare != nil {
		spare.close()
	}
	return p.dial(fresh)
}

// lendLocked lends a connection that is in no list.
func (p *Pool) lendLocked(c *Conn) {
	if c.lent {
		panic("BUG: upstream: a connection was lent twice")
	}
	c.lent, c.answered, c.heading = true, false, false
	c.server.beginLocked(c)
	c.server.requests++
}

// roomLocked finds room for one more connection, if necessary that of an idle one, which must then be closed.
// If all others are being closed, it waits for one.
func (p *Pool) roomLocked(s *server) (spare *Conn) {
	for p.open >= p.config.MaxConnections {
		if spare = p.spareLocked(s); spare != nil {
			return spare
		}
		p.closing.Wait()
	}
	p.open++
	return nil
}

// spareLocked takes an idle connection away to make room: from the server s if it has one, which then was not
// suitable, else from the one with the most. The oldest goes.
func (p *Pool) spareLocked(s *server) *Conn {
	for _, other := range p.servers {
		if s.idle.newest == nil || other.idle.len > s.idle.len && s != other {
			s = other
		}
	}
	c := s.idle.oldest
	if c != nil {
		s.idle.remove(c)
	}
	return c
}

// Put returns a connection whose last answer was read to its end and that has nothing left over: it may serve
// another request. That counts as an answer of its server.
func (p *Pool) Put(c *Conn) {
	p.mu.Lock()
	s, owner := c.returnLocked()
	back := s.succeedLocked(p, c)
	if keep := !p.closed && !c.interrupted.Load() && !s.ejected; keep {
		c.since = p.epoch
		s.idle.add(c)
		p.leaveLocked(owner)
		p.mu.Unlock()
	} else {
		p.mu.Unlock()
		p.end(c)
		p.leave(owner)
	}
	if back {
		p.logBack(s)
	}
}

// Outcome is what a request that ended its connection says about the server.
type Outcome uint8

// The outcomes for [Pool.Discard].
const (
	// Fine means that there was an answer, after which the connection cannot be reused.
	Fine Outcome = iota
	// Failed counts against the server: no head of an answer came, or nonsense.
	Failed
	// Unknown says nothing about the server: the client left before the answer, or a pooled connection had
	// been closed.
	Unknown
)

// Discard closes a connection that must not be reused.
func (p *Pool) Discard(c *Conn, o Outcome) {
	p.mu.Lock()
	s, owner := c.returnLocked()
	var back bool
	var out ejection
	switch o {
	case Fine:
		back = s.succeedLocked(p, c)
	case Failed:
		s.failed++
		out = s.failLocked(p, c.era)
	case Unknown:
	}
	p.mu.Unlock()
	p.end(c)
	p.leave(owner)
	p.carryOut(s, out)
	if back {
		p.logBack(s)
	}
}

// end closes a connection that is in no list and releases its room.
func (p *Pool) end(c *Conn) {
	c.close()
	p.release()
}

// release releases room.
func (p *Pool) release() {
	p.mu.Lock()
	p.open--
	p.closing.Broadcast()
	p.mu.Unlock()
}

// endAll is end for connections that are linked by their older field.
func (p *Pool) endAll(c *Conn) {
	for c != nil {
		next := c.older
		c.older = nil
		p.end(c)
		c = next
	}
}

// Close closes idle connections and sends waiting requests away. Lent connections are closed when they are
// returned. Get returns ErrClosed from now on.
func (p *Pool) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	var idle []*Conn
	for _, s := range p.servers {
		idle = append(idle, s.idle.takeAll())
	}
	p.sendAwayLocked()
	sweeping := p.sweeping
	p.mu.Unlock()
	for _, c := range idle {
		p.endAll(c)
	}
	close(p.stop)
	if sweeping {
		<-p.swept
	}
}
