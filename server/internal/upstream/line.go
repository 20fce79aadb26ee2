package upstream

import (
	"net/netip"
	"time"
)

// line has the turns in use (a turn is a connection or room for one) and the requests that wait for one, by
// client. Pool.mu guards it, with everything it leads to.
type line struct {
	clients map[netip.Addr]*client
	turns   int     // in use
	len     int     // waiting requests
	next    *client // the client to get the next turn, in a ring of those that wait
	ring    int     // length of the ring

	freeClients *client // to be reused, linked by next
	freeWaiters *waiter // likewise, by behind

	served, full, timedOut, left uint64
}

// client has turns or waits for some.
type client struct {
	who         netip.Addr // the zero address stands for all unknown clients
	turns       int
	waiting     int
	first, last *waiter
	next, prev  *client // in the ring
}

// waiter is a request that waits.
type waiter struct {
	client         *client // nil: it has left the queue
	turn           chan error
	timer          *time.Timer
	before, behind *waiter // waiters of the same client
}

// client returns an address's client, which is forgotten when it has nothing any more.
func (l *line) client(who netip.Addr) *client {
	c := l.clients[who]
	if c != nil {
		return c
	}
	if c = l.freeClients; c == nil {
		c = new(client)
	} else {
		l.freeClients, c.next = c.next, nil
	}
	c.who = who
	l.clients[who] = c
	return c
}

// forget forgets a client that has nothing.
func (l *line) forget(c *client) {
	if c.turns == 0 && c.waiting == 0 {
		delete(l.clients, c.who)
		*c = client{next: l.freeClients}
		l.freeClients = c
	}
}

// add adds a waiter behind others of the client.
func (l *line) add(c *client) *waiter {
	w := l.freeWaiters
	if w == nil {
		w = &waiter{turn: make(chan error, 1), timer: time.NewTimer(time.Hour)} // whoever gives a turn does not wait
	} else {
		l.freeWaiters, w.behind = w.behind, nil
	}
	w.client = c
	if w.before = c.last; c.last == nil {
		c.first = w
		l.enter(c)
	} else {
		c.last.behind = w
	}
	c.last = w
	c.waiting++
	l.len++
	return w
}

func (l *line) remove(w *waiter) {
	c := w.client
	if w.before == nil {
		c.first = w.behind
	} else {
		w.before.behind = w.behind
	}
	if w.behind == nil {
		c.last = w.before
	} else {
		w.behind.before = w.before
	}
	w.before, w.behind, w.client = nil, nil, nil
	l.len--
	if c.waiting--; c.waiting == 0 {
		l.leave(c)
	}
}

// enter adds a client to the end of the ring.
func (l *line) enter(c *client) {
	if l.ring++; l.next == nil {
		l.next, c.next, c.prev = c, c, c
		return
	}
	c.next, c.prev = l.next, l.next.prev
	c.prev.next, c.next.prev = c, c
}

func (l *line) leave(c *client) {
	if l.ring--; l.ring == 0 {
		l.next = nil
	} else if l.next == c {
		l.next = c.next
	}
	c.next.prev, c.prev.next = c.prev, c.next
	c.next, c.prev = nil, nil
}
