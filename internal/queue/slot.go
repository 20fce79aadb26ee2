package queue

import (
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// Slot is a request's slot in a queue.
type Slot struct {
	digest     sketch.Digest
	cost       uint64        // ticks, by Queues.unit
	prev, next *Slot         // guarded by the shard
	first      atomic.Bool   // no request is ahead; set once
	wake       chan struct{} // of the request; buffered: 1
}

// First reports whether no request is ahead.
func (p *Slot) First() bool { return p.first.Load() }

// Called receives when the request should check all of its slots.
func (p *Slot) Called() <-chan struct{} { return p.wake }

// call wakes the request.
func (p *Slot) call() {
	select {
	case p.wake <- struct{}{}:
	default: // it has been woken, and has not checked yet
	}
}

// setFirst makes the slot the first, and wakes its request. The shard is locked.
func (p *Slot) setFirst() {
	p.first.Store(true)
	p.call()
}

// Request asks for a slot.
type Request struct {
	Client        sketch.Digest
	Cost          uint64 // ticks
	Unit          uint64 // what a unit costs in ticks
	Now, Deadline time.Duration
	Limits        limit.WaitLimits // with defaults filled in
	Other         *Slot            // another slot of the same request, or nil
}

// Buckets say how long it takes from now until cost, behind ahead, fits the bucket of d, all in ticks of the
// rule.
type Buckets interface {
	Until(d sketch.Digest, ahead, cost uint64, now time.Duration) time.Duration
}

// Join adds a slot to the end of the client's queue if the units will fit by the deadline. It returns
// how long that will take, which it asks b under the shard's lock, so that nobody joins or leaves meanwhile.
// If there is no slot for the request, p is nil, and tooLong reports whether the wait is the reason.
func (s *Queues) Join(r *Request, b Buckets) (p *Slot, wait time.Duration, tooLong bool) {
	sh := s.shard(r.Client)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q, ahead := sh.m[r.Client], uint64(0)
	if q != nil {
		ahead = scaleUp(q.ticks, s.unit, r.Unit)
	}
	wait = b.Until(r.Client, ahead, r.Cost, r.Now)
	switch {
	case wait > r.Deadline-r.Now:
		return nil, wait, true
	case s.all.ended():
		return nil, wait, false
	case q != nil && q.slots >= r.Limits.PerKey || !s.all.take(r.Limits.Total):
		s.Refused.Add(1)
		return nil, wait, false
	}
	p = &Slot{digest: r.Client, cost: scaleUp(r.Cost, r.Unit, s.unit)}
	if r.Other != nil {
		p.wake = r.Other.wake
	} else {
		p.wake = make(chan struct{}, 1)
	}
	if q == nil {
		q = &queue{first: p}
		if sh.m == nil {
			sh.m = map[sketch.Digest]*queue{}
		}
		sh.m[r.Client] = q
		p.setFirst()
	} else {
		q.last.next, p.prev = p, q.last
	}
	q.last = p
	q.slots++
	q.ticks += p.cost
	s.taken.Add(1)
	s.Waiting.Add(1)
	return p, wait, false
}

// Leave gives the slot up. If it was the first, the next one becomes the first.
func (s *Queues) Leave(p *Slot) {
	sh := s.shard(p.digest)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q := sh.m[p.digest]
	if p.prev != nil {
		p.prev.next = p.next
	} else if q.first = p.next; p.next != nil {
		p.next.setFirst()
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		q.last = p.prev
	}
	p.prev, p.next = nil, nil
	q.slots--
	if q.ticks -= p.cost; q.slots == 0 {
		delete(sh.m, p.digest)
	}
	s.taken.Add(-1)
	s.Waiting.Add(-1)
	s.all.slots.Add(-1)
}
