package upstream

import (
	"errors"
	"net/netip"
	"time"
)

// fair reports whether a client that has some turns may have one more, if so many are left: the first one
// always, and more while that leaves a fourth of what it has. So one client alone gets four in five, two get
// four in nine each, and there is always one left for the next. Choudhury and Hahne, "Dynamic queue length
// thresholds for shared-memory packet switches", 1998.
func fair(has, left int) bool { return left > 0 && (has == 0 || has < 4*(left-1)) }

// mayLocked reports whether a client may have one more turn. Unknown clients have no share.
func (p *Pool) mayLocked(c *client) bool {
	switch left := p.config.MaxConnections - p.line.turns; {
	case !c.who.IsValid():
		return left > 0
	case p.config.MaxPerClient > 0:
		return left > 0 && c.turns < p.config.MaxPerClient
	default:
		return fair(c.turns, left)
	}
}

// enterLocked waits until the client may have one more turn, without the lock.
func (p *Pool) enterLocked(who netip.Addr, w Waiter) (*client, error) {
	if p.closed {
		return nil, ErrClosed
	}
	l := &p.line
	c := l.client(who)
	if c.waiting == 0 && p.mayLocked(c) {
		c.turns++
		l.turns++
		return c, nil
	}
	if l.len >= p.config.MaxQueue && !l.displace(c) {
		l.full++
		l.forget(c)
		return nil, ErrQueueFull
	}
	err := p.waitLocked(l.add(c), w)
	switch {
	case err == nil:
		l.served++
		return c, nil
	case errors.Is(err, ErrQueueTimeout):
		l.timedOut++
	case errors.Is(err, ErrQueueFull):
		l.full++
	case errors.Is(err, ErrCanceled):
		l.left++
	}
	return nil, err
}

// waitLocked waits for a turn, without the lock. A turn that comes just as the time is up is taken; if the
// request has gone, the next one gets it.
func (p *Pool) waitLocked(w *waiter, by Waiter) (err error) {
	c := w.client
	p.mu.Unlock()
	var cancel <-chan struct{}
	if by != nil {
		cancel = by.BeginQueue()
	}
	w.timer.Reset(p.config.QueueTimeout)
	began := time.Now()
	came := false
	select {
	case err = <-w.turn:
		came = true
	case <-w.timer.C:
		err = ErrQueueTimeout
	case <-cancel:
		err = ErrCanceled
	}
	p.queued.Observe(time.Since(began))
	w.timer.Stop()
	p.mu.Lock()
	switch {
	case came:
	case w.client != nil:
		p.line.remove(w)
		p.line.forget(c)
	default:
		if closed := <-w.turn; closed != nil || err == ErrQueueTimeout { //nolint:errorlint // set above
			err = closed
		} else {
			p.leaveLocked(c)
		}
	}
	w.behind, p.line.freeWaiters = p.line.freeWaiters, w
	return err
}

// leaveLocked returns a client's turn.
func (p *Pool) leaveLocked(c *client) {
	c.turns--
	p.line.turns--
	p.line.forget(c)
	p.nextLocked()
}

func (p *Pool) leave(c *client) {
	p.mu.Lock()
	p.leaveLocked(c)
	p.mu.Unlock()
}

// nextLocked gives turns, client by client, to all that may have one.
func (p *Pool) nextLocked() {
	l := &p.line
	for passed := 0; passed < l.ring && l.turns < p.config.MaxConnections; {
		c := l.next
		if l.next = c.next; !p.mayLocked(c) {
			passed++
			continue
		}
		passed = 0
		w := c.first
		l.remove(w)
		c.turns++
		l.turns++
		w.turn <- nil
	}
}

// displace makes room in a full queue for a client with fewer waiting requests than others: the last one of
// the client with the most is sent away.
func (l *line) displace(c *client) bool {
	if c.waiting*l.ring >= l.len {
		return false // most requests of a flood end here
	}
	most := l.next
	for other := most.next; other != l.next; other = other.next {
		if other.waiting > most.waiting {
			most = other
		}
	}
	if most.waiting <= c.waiting+1 {
		return false
	}
	w := most.last
	l.remove(w)
	w.turn <- ErrQueueFull
	return true
}

// sendAwayLocked sends all waiting requests away.
func (p *Pool) sendAwayLocked() {
	for l := &p.line; l.next != nil; {
		c := l.next
		w := c.first
		l.remove(w)
		l.forget(c)
		w.turn <- ErrClosed
	}
}
