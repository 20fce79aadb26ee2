package upstream

import (
	"cmp"
	"errors"
	"time"
)

// waiter is somebody who waits in line.
type waiter struct {
	fresh  bool
	queued bool       // guarded by Pool.mu
	turn   chan grant // capacity 1: who grants does not wait
	timer  *time.Timer

	before, behind *waiter // in line, or behind among those that are free
}

// grant is what a waiter gets: a connection, or room for a new one, or an error.
type grant struct {
	c   *Conn
	err error
}

// line is who waits, first come first served, with counters. Pool.mu guards it.
type line struct {
	first, last *waiter
	len         int
	free        *waiter // to be used again

	served, full, timedOut, left uint64
}

func (l *line) add(fresh bool) *waiter {
	w := l.free
	if w == nil {
		w = &waiter{turn: make(chan grant, 1), timer: time.NewTimer(time.Hour)}
	} else {
		l.free, w.behind = w.behind, nil
	}
	w.fresh, w.queued = fresh, true
	if w.before = l.last; l.last == nil {
		l.first = w
	} else {
		l.last.behind = w
	}
	l.last = w
	l.len++
	return w
}

func (l *line) remove(w *waiter) {
	if w.before == nil {
		l.first = w.behind
	} else {
		w.before.behind = w.behind
	}
	if w.behind == nil {
		l.last = w.before
	} else {
		w.behind.before = w.before
	}
	w.before, w.behind, w.queued = nil, nil, false
	l.len--
}

// waitLocked unlocks, and waits in line. Without a connection and an error there is room for
// a new one.
func (p *Pool) waitLocked(cancel <-chan struct{}, fresh bool) (*Conn, error) {
	if p.line.len >= p.config.MaxQueue {
		p.line.full++
		p.mu.Unlock()
		return nil, ErrQueueFull
	}
	w := p.line.add(fresh)
	p.mu.Unlock()
	w.timer.Reset(p.config.QueueTimeout)
	began := time.Now()
	g, err := p.await(w, cancel)
	p.queued.Observe(time.Since(began))
	w.timer.Stop()

	p.mu.Lock()
	w.behind, p.line.free = p.line.free, w
	switch err = cmp.Or(err, g.err); {
	case err == nil:
		p.line.served++
	case errors.Is(err, ErrQueueTimeout):
		p.line.timedOut++
	case errors.Is(err, ErrCanceled):
		p.line.left++
	}
	p.mu.Unlock()
	return g.c, err
}

// await waits for a turn. A turn that comes in the very moment in which the time is up is
// taken; if the client has gone, the next in line gets it.
func (p *Pool) await(w *waiter, cancel <-chan struct{}) (grant, error) {
	var err error
	select {
	case g := <-w.turn:
		return g, nil
	case <-w.timer.C:
		err = ErrQueueTimeout
	case <-cancel:
		err = ErrCanceled
	}
	p.mu.Lock()
	left := w.queued
	if left {
		p.line.remove(w)
	}
	p.mu.Unlock()
	if left {
		return grant{}, err
	}
	g := <-w.turn
	switch {
	case err == ErrQueueTimeout || g.err != nil: //nolint:errorlint // set above
		return g, nil
	case g.c != nil:
		p.put(g.c, false)
	default:
		p.release()
	}
	return grant{}, err
}
