// Package line keeps requests that wait in order: first come, first served, for each client.
//
// A rule, or a tier of one, owns [Lines]: for each of its clients that has requests waiting
// a line of places. A rule that goes on with another has the same lines, so that nobody
// loses a place by a reload; whom those who wait ask then is its business, as are limits and
// times: what is ahead is a sum of ticks here, and when units fit is asked of [Buckets].
// [Waiters] are shared by the lines of all limiters that go on with one another: they bound
// how many wait, and end all waiting.
//
// A line is guarded by the lock of its shard. A [Place] is its caller's but for its
// neighbours, which are guarded by that lock, and its turn, which is set once, under it. No
// lock is held while anybody waits.
//
// There are no goroutines here. Who waits does so on the goroutine of its caller, on a
// channel that all of its places have in common ([Place.Called]), and only the first in a
// line asks for units. Whoever leaves a line as the first, admitted, denied or because its
// caller has gone, wakes the next, which is the first then ([Lines.Leave]). At a reload the
// new rule wakes the first of each line ([Lines.WakeFirst]). A stop wakes everybody, and
// whoever comes later gets no place ([Waiters.Stop]). Whoever has been woken gives its
// places back itself, so a place is left exactly once.
package line

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// Lines are the places of one rule: for each client that has requests waiting a line, in
// the order in which they came. Only the first in a line asks for units, on the goroutine
// of its caller; whoever leaves hands the turn to the next. So there are no goroutines,
// and of each client at most one request of those that wait is anywhere but here.
type Lines struct {
	*Counts              // of the rule, its tiers included
	all     *Waiters     // of the limiter
	unit    uint64       // of the ticks in all of these: a rule with other ones may go on with them
	taken   atomic.Int64 // places in all of these: 0 spares the look into a shard
	shards  []shard      // a power of two; immutable
}

// Counts are what became of the requests of a rule that could not be admitted at once.
// Waiting is kept by the lines, and Refused, of those that got no place because all that
// they could have were taken; the others by whoever waits.
type Counts struct {
	Waiting                         atomic.Int64
	Admitted, Left, Denied, Refused atomic.Uint64
}

// CountDenied counts one that has waited, and in the end is denied or has left.
func (c *Counts) CountDenied(ctx context.Context) {
	if ctx.Err() != nil {
		c.Left.Add(1)
	} else {
		c.Denied.Add(1)
	}
}

// shard is a part of the lines, in a cache line of its own.
type shard struct {
	mu sync.Mutex
	m  map[sketch.Digest]*line // those that are not empty; guarded by mu
	_  [64 - 16]byte
}

// line is who waits for one client's bucket. Guarded by the shard.
type line struct {
	first, last *Place
	places      int
	ticks       uint64 // what they ask for, in all, as of Lines.unit
}

// Begin makes empty lines of so many shards, a power of two, which add up ticks of which a unit
// costs that many: what bucket.Shape.StoredUnit says. Nobody uses them yet.
func (s *Lines) Begin(shards int, unit uint64, counts *Counts, all *Waiters) {
	s.Counts, s.all, s.unit, s.shards = counts, all, unit, make([]shard, shards)
}

func (s *Lines) shard(d sketch.Digest) *shard {
	return &s.shards[int(d.Pos>>8)&(len(s.shards)-1)]
}

// Room reports whether one more request for the bucket of d would find a place now.
func (s *Lines) Room(d sketch.Digest, limits limit.WaitLimits) bool {
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q := sh.m[d]
	return !s.all.ended() && (q == nil || q.places < limits.PerKey) && s.all.Places() < int64(limits.Total)
}

// Ahead returns the ticks that those ask for who wait for the bucket of d, as of a rule whose
// unit that is, and whether there are any.
func (s *Lines) Ahead(d sketch.Digest, unit uint64) (ticks uint64, any bool) {
	if s.taken.Load() == 0 {
		return 0, false
	}
	return s.ahead(d, unit)
}

func (s *Lines) ahead(d sketch.Digest, unit uint64) (ticks uint64, any bool) {
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if q := sh.m[d]; q != nil {
		return scaleUp(q.ticks, s.unit, unit), true
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

// WakeFirst has the first in each line look again.
func (s *Lines) WakeFirst() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, q := range sh.m {
			q.first.call()
		}
		sh.mu.Unlock()
	}
}

// Empty reports whether nobody has a place and no line is left over, for tests.
func (s *Lines) Empty() bool {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n := len(sh.m)
		sh.mu.Unlock()
		if n > 0 {
			return false
		}
	}
	return s.taken.Load() == 0
}
