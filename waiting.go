package fastlimit

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/sketch"
)

// WaitStats counts the requests of a rule that were denied only for the moment. Waiting
// is how many wait now; of those that waited before, Admitted were admitted, Left were
// given up by their callers, and Denied were denied: their time had run out, another
// rule denied them, or waiting was stopped. Refused got no place because all that they
// could have were taken; they did not wait, nor did those that would have had to wait for
// longer than MaxWait, which are not counted here.
type WaitStats struct {
	Waiting                         int64
	Admitted, Left, Denied, Refused uint64
}

// waiters is what all limiters share that go on with the state of one another.
type waiters struct {
	places atomic.Int64  // that are taken
	end    chan struct{} // closed when nobody is to wait any more
	once   sync.Once
}

func newWaiters() *waiters { return &waiters{end: make(chan struct{})} }

// lines are the places of one rule: for each client that has requests waiting a line, in
// the order in which they came. Only the first in a line asks for units, on the goroutine
// of its caller; whoever leaves hands the turn to the next. So there are no goroutines,
// and of each client at most one request of those that wait is anywhere but here.
type lines struct {
	*waitCounts              // of the rule, its tiers included
	all         *waiters     // of the limiter
	unit        uint64       // [bucket.Shape.StoredUnit] of the ticks in all of these: a rule with other ones may go on with them
	taken       atomic.Int64 // places in all of these: 0 spares the look into a shard
	heir        weakRule     // whom all who wait ask, whichever rule they came by
	shards      []lineShard  // a power of two; immutable
}

// waitCounts is what [WaitStats] shows.
type waitCounts struct {
	waiting                         atomic.Int64
	admitted, left, denied, refused atomic.Uint64
}

// How many shards the lines of a rule have, and those of a tier, of which there may be
// many (TestTierMemory).
const ruleShards, tierShards = 64, 4

func (r *Rule) newLines(counts *waitCounts, shards int) *lines {
	return &lines{waitCounts: counts, all: r.limiter.waiters, unit: r.buckets.Shape.StoredUnit(), shards: make([]lineShard, shards)}
}

// lineShard is a part of the lines, in a cache line of its own.
type lineShard struct {
	mu sync.Mutex
	m  map[sketch.Digest]*waitLine // those that are not empty; guarded by mu
	_  [64 - 16]byte
}

// waitLine is who waits for one client's bucket. Guarded by the shard.
type waitLine struct {
	first, last *place
	places      int
	ticks       uint64 // what they ask for, in all, as of lines.unit
}

// place is one place in a line.
type place struct {
	lines      *lines
	digest     sketch.Digest
	cost       uint64        // ticks, as of lines.unit
	prev, next *place        // guarded by the shard
	first      atomic.Bool   // nobody is ahead; set once
	wake       chan struct{} // of the request; buffered: 1

	// Of the goroutine that waits.
	charge   int
	deadline time.Duration
	due      time.Duration // when to ask next, of the first, or to give up
	asked    bool          // as the first
	moved    bool          // asks an heir
}

// call wakes the request, which looks at all of its places.
func (p *place) call() {
	select {
	case p.wake <- struct{}{}:
	default: // it has been called, and has not looked yet
	}
}

// setFirst tells the request that it is its turn. The shard is locked.
func (p *place) setFirst() {
	p.first.Store(true)
	p.call()
}

func (s *lines) shard(d sketch.Digest) *lineShard {
	return &s.shards[int(d.Pos>>8)&(len(s.shards)-1)]
}

// ahead returns the ticks that those ask for who wait in lines for the bucket of d, and
// whether there are any.
func (r *Rule) ahead(s *lines, d sketch.Digest) (ticks uint64, any bool) {
	if s.taken.Load() == 0 {
		return 0, false
	}
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if q := sh.m[d]; q != nil {
		return scaleUp(q.ticks, s.unit, r.buckets.Shape.StoredUnit()), true
	}
	return 0, false
}

// scaleUp converts ticks of which a unit costs from to those of which it costs to, rounded up.
func scaleUp(ticks, from, to uint64) uint64 {
	hi, lo := bits.Mul64(ticks, to)
	if from == to || hi >= from { // more than fits any bucket
		return ticks
	}
	q, rest := bits.Div64(hi, lo, from)
	return q + min(rest, 1)
}

// noPlace says why a request got no place, or gotPlace.
type noPlace uint8

const (
	gotPlace noPlace = iota
	tooLong          // it would be admitted too late
	allTaken         // by the client, or in all
	stopped          // nobody waits any more
)

// join makes a place at the end of the line of d, for a request that costs so many ticks,
// if it will be its turn by the deadline. It returns how long the wait is going to be. wake is
// that of the request's other places, or nil.
func (r *Rule) join(wake chan struct{}, d sketch.Digest, cost uint64, now, deadline time.Duration) (p *place, wait time.Duration, no noPlace) {
	s, l := r.lines, r.limiter
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q, ahead := sh.m[d], uint64(0)
	if q != nil {
		ahead = scaleUp(q.ticks, s.unit, r.buckets.Shape.StoredUnit())
	}
	wait = r.until(d, ahead, cost, now)
	switch {
	case wait > deadline-now:
		return nil, wait, tooLong
	case l.waiters.ended():
		return nil, wait, stopped
	case q != nil && q.places >= l.waitLimits.PerKey || !l.waiters.take(l.waitLimits.Total):
		return nil, wait, allTaken
	}
	if wake == nil {
		wake = make(chan struct{}, 1)
	}
	p = &place{lines: s, wake: wake, digest: d, cost: scaleUp(cost, r.buckets.Shape.StoredUnit(), s.unit), deadline: deadline, due: deadline + waitSlack}
	if q == nil {
		q = &waitLine{first: p}
		if sh.m == nil {
			sh.m = map[sketch.Digest]*waitLine{}
		}
		sh.m[d] = q
		p.setFirst()
	} else {
		q.last.next, p.prev = p, q.last
	}
	q.last = p
	q.places++
	q.ticks += p.cost
	s.taken.Add(1)
	s.waiting.Add(1)
	return p, wait, gotPlace
}

// leave gives the place up, and the turn to the next if it was the first.
func (s *lines) leave(p *place) {
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
	s.waiting.Add(-1)
	s.all.places.Add(-1)
}

// goOn has all who wait, or come yet, ask r from now on, which goes on with their rule.
func (s *lines) goOn(r *Rule) {
	s.heir.store(r)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, q := range sh.m {
			q.first.call()
		}
		sh.mu.Unlock()
	}
}

// countDenied counts one that has waited, and in the end is denied or has left.
func (s *lines) countDenied(ctx context.Context) {
	if ctx.Err() != nil {
		s.left.Add(1)
	} else {
		s.denied.Add(1)
	}
}

// take takes one place of so many, if one is free.
func (w *waiters) take(total int) bool {
	for n := w.places.Load(); n < int64(total); n = w.places.Load() {
		if w.places.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (w *waiters) ended() bool {
	select {
	case <-w.end:
		return true
	default:
		return false
	}
}

// until is how long it takes until cost and what is ahead of it fit the bucket of d, as
// far as this node knows and if nothing else arrives.
func (r *Rule) until(d sketch.Digest, ahead, cost uint64, now time.Duration) time.Duration {
	b := &r.buckets
	if cost > b.Shape.Limit() {
		return bucket.Never
	}
	level := bucket.Level(b.Table.Lookup(d), b.Shape.Ticks(now)) + ahead + cost
	if most := b.Shape.Limit() + b.Shape.Grace(); level > most {
		return b.Shape.Duration(level - most)
	}
	return 0
}

// StopWaiting lets everyone go who waits in this limiter, or in one that it goes on with
// or that goes on with it ([Limiter.With]): they are denied now. From then on nobody
// waits. It is for a server that shuts down, returns at once, and may be called again.
func (l *Limiter) StopWaiting() {
	l.checkMade()
	l.waiters.once.Do(func() { close(l.waiters.end) })
}

// WaitStats returns a snapshot of what [Rule.Wait] and [Limiter.WaitAll] did for this rule
// and its tiers, since it was made or since the first of those whose state it goes on with was.
func (r *Rule) WaitStats() WaitStats {
	r.checkMade()
	s := r.lines
	if s == nil {
		return WaitStats{}
	}
	return WaitStats{s.waiting.Load(), s.admitted.Load(), s.left.Load(), s.denied.Load(), s.refused.Load()}
}

// beginWaiting gives the limiter its bounds, and the waiters of the one that it goes on
// with, which may be nil.
func (l *Limiter) beginWaiting(c *Config, old *Limiter) {
	l.waitLimits = c.Wait.WithDefaults()
	if l.waiters = newWaiters(); old != nil {
		l.waiters = old.waiters
	}
}

// beginLines gives a rule, or a tier, that lets requests wait its lines, or those of old,
// if that is not nil and has some. Time must pass by itself, so not that of a [ManualClock].
func (r *Rule) beginLines(old *Rule) {
	switch {
	case r.config.MaxWait == 0 || !r.enforced || !r.limiter.clock.IsMachine():
	case old != nil && old.lines != nil:
		r.lines = old.lines
	case r.base != nil:
		r.lines = r.newLines(r.base.lines.waitCounts, tierShards)
	default:
		r.lines = r.newLines(new(waitCounts), ruleShards)
	}
}
