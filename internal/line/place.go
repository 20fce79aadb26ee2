package line

import (
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// Place is one place in a line.
type Place struct {
	digest     sketch.Digest
	cost       uint64        // ticks, as of Lines.unit
	prev, next *Place        // guarded by the shard
	first      atomic.Bool   // nobody is ahead; set once
	wake       chan struct{} // of the request; buffered: 1
}

// First reports whether nobody is ahead.
func (p *Place) First() bool { return p.first.Load() }

// Called receives when the request is to look at all of its places.
func (p *Place) Called() <-chan struct{} { return p.wake }

// call wakes the request, which looks at all of its places.
func (p *Place) call() {
	select {
	case p.wake <- struct{}{}:
	default: // it has been called, and has not looked yet
	}
}

// setFirst tells the request that it is its turn. The shard is locked.
func (p *Place) setFirst() {
	p.first.Store(true)
	p.call()
}

// Request asks for a place.
type Request struct {
	Client        sketch.Digest
	Cost          uint64 // ticks
	Unit          uint64 // what a unit costs in them
	Now, Deadline time.Duration
	Limits        limit.WaitLimits // with defaults filled in
	Beside        *Place           // another place of the same request, or nil
}

// Buckets say how long it takes from now on until cost and what is ahead of it fit the bucket
// of d, in ticks of the rule that they are of.
type Buckets interface {
	Until(d sketch.Digest, ahead, cost uint64, now time.Duration) time.Duration
}

// Join makes a place at the end of the client's line, if it will be the request's turn by the
// deadline. It asks b under the lock of the shard, so nobody comes or leaves meanwhile, and
// returns how long the wait is going to be. Without a place p is nil, and tooLong tells
// whether it was for that.
func (s *Lines) Join(r *Request, b Buckets) (p *Place, wait time.Duration, tooLong bool) {
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
	case q != nil && q.places >= r.Limits.PerKey || !s.all.take(r.Limits.Total):
		s.Refused.Add(1)
		return nil, wait, false
	}
	p = &Place{digest: r.Client, cost: scaleUp(r.Cost, r.Unit, s.unit)}
	if r.Beside != nil {
		p.wake = r.Beside.wake
	} else {
		p.wake = make(chan struct{}, 1)
	}
	if q == nil {
		q = &line{first: p}
		if sh.m == nil {
			sh.m = map[sketch.Digest]*line{}
		}
		sh.m[r.Client] = q
		p.setFirst()
	} else {
		q.last.next, p.prev = p, q.last
	}
	q.last = p
	q.places++
	q.ticks += p.cost
	s.taken.Add(1)
	s.Waiting.Add(1)
	return p, wait, false
}

// Leave gives the place up, and the turn to the next if it was the first.
func (s *Lines) Leave(p *Place) {
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
	q.places--
	if q.ticks -= p.cost; q.places == 0 {
		delete(sh.m, p.digest)
	}
	s.taken.Add(-1)
	s.Waiting.Add(-1)
	s.all.places.Add(-1)
}
