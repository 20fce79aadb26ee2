// Package queue keeps waiting requests in order: first come, first served, for each client.
//
// A rule, or a tier, owns [Queues]: one queue for each client that has requests waiting. A rule's
// successor takes its queues over, so nobody loses a slot in a reload. Limits and times belong to the
// rules. Here the wait is a sum of ticks, and [Buckets] say when it is over. [Waiters] are shared by a
// limiter and its successors. They bound how many requests wait, and end all waiting.
//
// A queue is guarded by the lock of its shard. A [Slot] belongs to its request, but its
// neighbours are guarded by that lock, and it becomes the first under it, once. No lock is held
// while a request waits.
//
// There are no goroutines here. A request waits on its caller's goroutine, on one channel for
// all of its slots ([Slot.Called]). Only the first request of a queue asks for units. When it leaves,
// because it is admitted or denied or its caller has gone, it wakes the next
// ([Queues.Leave]). After a reload the new rule wakes the first of each queue
// ([Queues.WakeFirst]). A stop wakes all, and nobody gets a slot after it ([Waiters.Stop]).
// Each request gives up its own slots, so each slot is given up exactly once.
package queue

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// Queues are the queues of one rule's clients. They are safe for concurrent use after Begin.
type Queues struct {
	*Counts              // of the rule, its tiers included
	all     *Waiters     // the limiter's
	unit    uint64       // the cost of a unit, in ticks of these queues; a successor's may differ
	taken   atomic.Int64 // slots in all of these; while it is 0 no shard is read
	shards  []shard      // a power of two; immutable
}

// Counts are the results of a rule's requests that could not be admitted at once. The queues count Waiting,
// and Refused, the requests that found no free slot. Callers count the others.
type Counts struct {
	Waiting                         atomic.Int64
	Admitted, Left, Denied, Refused atomic.Uint64
}

// CountDenied counts a request that has waited and was denied, or whose caller has left.
func (c *Counts) CountDenied(ctx context.Context) {
	if ctx.Err() != nil {
		c.Left.Add(1)
	} else {
		c.Denied.Add(1)
	}
}

// shard is a part of the queues, in its own cache line.
type shard struct {
	mu sync.Mutex
	m  map[sketch.Digest]*queue // without empty ones; guarded by mu
	_  [64 - 16]byte
}

// queue has the requests that wait for one client's bucket. Guarded by the shard.
type queue struct {
	first, last *Slot
	slots       int
	ticks       uint64 // that they ask for together, in units of Queues.unit
}

// Begin makes empty queues in that many shards, a power of two. They add up ticks, at unit ticks per unit:
// bucket.Shape.StoredUnit. Nobody may use them yet.
func (s *Queues) Begin(shards int, unit uint64, counts *Counts, all *Waiters) {
	s.Counts, s.all, s.unit, s.shards = counts, all, unit, make([]shard, shards)
}

func (s *Queues) shard(d sketch.Digest) *shard {
	return &s.shards[int(d.Pos>>8)&(len(s.shards)-1)]
}

// Room reports whether another request for the bucket of d would find a slot now.
func (s *Queues) Room(d sketch.Digest, limits limit.WaitLimits) bool {
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q := sh.m[d]
	return !s.all.ended() && (q == nil || q.slots < limits.PerKey) && s.all.Slots() < int64(limits.Total)
}

// Ahead returns the ticks that requests waiting for the bucket of d ask for, at unit ticks per unit, and
// whether there are any.
func (s *Queues) Ahead(d sketch.Digest, unit uint64) (ticks uint64, any bool) {
	if s.taken.Load() == 0 {
		return 0, false
	}
	return s.ahead(d, unit)
}

func (s *Queues) ahead(d sketch.Digest, unit uint64) (ticks uint64, any bool) {
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if q := sh.m[d]; q != nil {
		return scaleUp(q.ticks, s.unit, unit), true
	}
	return 0, false
}

// scaleUp converts ticks from one cost of a unit to another, rounded up.
func scaleUp(ticks, from, to uint64) uint64 {
	hi, lo := bits.Mul64(ticks, to)
	if from == to || hi >= from { // more than fits any bucket
		return ticks
	}
	q, rest := bits.Div64(hi, lo, from)
	return q + min(rest, 1)
}

// WakeFirst wakes the first request of each queue.
func (s *Queues) WakeFirst() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, q := range sh.m {
			q.first.call()
		}
		sh.mu.Unlock()
	}
}

// Empty reports whether there are no slots and no queues, for tests.
func (s *Queues) Empty() bool {
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
