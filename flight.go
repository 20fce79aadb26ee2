package fastlimit

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/sketch"
)

// flight is the operation on one client's bucket that is on its way, with those
// who wait for it, those who arrived since, and what is to be done after it. So
// this node's operations on a bucket are in order: each is submitted after the
// answer to the one before. Fields are guarded by the lock of the shard. A
// flight is in the shard's map exactly while an operation is in flight.
type flight struct {
	shared *shared
	digest sketch.Digest
	name   string
	buf    []byte        // for making names
	sent   time.Duration // when the operation was submitted
	asked  []*waiter     // those that the operation asks for, of one cost
	next   []*waiter     // those that arrived since

	reset bool          // empty the bucket next
	back  uint64        // ticks to give back next
	since time.Duration // when the oldest of them may have been charged

	op   bucket.Op // the store's while it is in flight
	done func(*bucket.Op, bucket.Reply, error)
}

func newFlight(s *shared) *flight {
	f := &flight{shared: s}
	f.done = func(_ *bucket.Op, reply bucket.Reply, err error) { f.answer(reply, err) }
	return f
}

func (s *shared) flight(d sketch.Digest, key Key) *flight {
	f := s.flights.Get().(*flight) //nolint:forcetypeassert // ours
	f.digest, f.buf = d, s.appendName(f.buf[:0], key)
	f.name = string(f.buf)
	return f
}

// waiter is a request that waits.
type waiter struct {
	cost     uint64
	deadline time.Duration
	verdict  chan Decision // buffered: 1
	timer    *time.Timer   // the request's own

	// left is set when the request has stopped waiting, denied if it was
	// denied then. Guarded by the lock of the flight's shard.
	left, denied bool
}

func newWaiter() *waiter {
	w := &waiter{verdict: make(chan Decision, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

func (s *shared) waiter(cost uint64, deadline time.Duration) *waiter {
	w := s.waiters.Get().(*waiter) //nolint:forcetypeassert // ours
	w.cost, w.deadline = cost, deadline
	return w
}

// freeWaiter takes one that has its verdict: who leaves without may still be in
// a flight.
func (s *shared) freeWaiter(w *waiter) {
	w.timer.Stop()
	s.waiters.Put(w)
}

// goOnLocked submits the next operation: to empty the bucket, or to take for
// those who wait and give back on the way, or to give back alone. It ends the
// flight if there is none, or if the store refuses it.
func (f *flight) goOnLocked(sh *flightShard) {
	s := f.shared
	at := time.Now()
	now := s.rule.limiter.clock.at(at) // the same, on the limiter's time line
	f.op = bucket.Op{Key: f.name, Shape: s.rule.shape, Count: 1, At: at, Done: f.done}
	switch {
	case f.reset:
		f.op.Kind, f.reset = bucket.Reset, false
	case len(f.next) > 0:
		f.askLocked(now)
		f.op.Back = f.takeBackLocked(now)
	case f.back > 0:
		f.op.Kind, f.op.Patience = bucket.Refund, s.timeout
		f.op.Cost = f.takeBackLocked(now)
	default:
		f.endLocked(sh)
		return
	}
	f.sent = now
	if s.store.Submit(&f.op) != nil {
		f.fallBackLocked(now)
		f.endLocked(sh)
	}
}

// askLocked makes the operation a take for all of next that have the cost of
// the first. It may not be carried out when the first of them has stopped
// waiting: what came too late was decided without the store, and would count
// against the client from then on instead of from when it asked.
func (f *flight) askLocked(now time.Duration) {
	s := f.shared
	cost, deadline := f.next[0].cost, f.next[0].deadline
	rest := f.next[:0]
	for _, w := range f.next {
		if w.cost != cost {
			rest = append(rest, w)
			continue
		}
		f.asked = append(f.asked, w)
		deadline = min(deadline, w.deadline)
	}
	f.next = rest
	f.op.Kind, f.op.Cost, f.op.Count = bucket.Take, cost, uint64(len(f.asked))
	f.op.Patience = max(deadline-now, 1) // 0 would be for ever
	f.op.Floor = s.floor(f.digest, now)
}

// giveBackLocked has ticks given back that were charged at since or later.
func (f *flight) giveBackLocked(ticks uint64, since time.Duration) {
	if f.back == 0 {
		f.since = since
	}
	f.back, f.since = f.back+ticks, min(f.since, since)
}

// takeBackLocked returns what to give back now. What was charged longer ago
// than J may have leaked since, and so much less is given back: else a client
// would get back what it has used.
func (f *flight) takeBackLocked(now time.Duration) uint64 {
	s := f.shared
	leaked := s.rule.shape.Ticks(max(0, now-f.since-s.timeout))
	back := f.back - min(f.back, leaked)
	f.back = 0
	return back
}

// answer takes the answer, late ones too: it feeds the table, tells those who
// wait, and goes on with those who arrived meanwhile unless the table now knows
// the answer for them.
func (f *flight) answer(reply bucket.Reply, err error) {
	s := f.shared
	sh := s.shard(f.digest)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.rule.limiter.now()
	switch {
	case err != nil:
		f.fallBackLocked(now)
	case f.op.Kind == bucket.Take:
		f.settleLocked(reply, now)
		f.judgeLocked(now)
	default:
		f.judgeLocked(now)
	}
	f.goOnLocked(sh)
}

// fallBackLocked lets the failure policy decide for everyone who waits.
func (f *flight) fallBackLocked(now time.Duration) {
	f.shared.distrust(now)
	for _, group := range [...]*[]*waiter{&f.asked, &f.next} {
		for _, w := range *group {
			if !w.left {
				w.verdict <- f.shared.fallback(f.digest, w.cost, w.deadline, now)
			}
		}
		*group = (*group)[:0]
	}
}

// endLocked takes the flight out of the map and gives it away.
func (f *flight) endLocked(sh *flightShard) {
	delete(sh.m, f.digest)
	f.name, f.reset, f.back = "", false, 0
	f.shared.flights.Put(f)
}

// settleLocked feeds the table with the answer and hands its grants out: to
// those who wait, first come, first served, then to those who left and were
// admitted. What is left over was charged for requests that have been denied,
// and is given back.
func (f *flight) settleLocked(reply bucket.Reply, now time.Duration) {
	s, r := f.shared, f.shared.rule
	cost := f.asked[0].cost
	ticks := r.shape.Ticks(now)
	waiting, left := uint64(0), uint64(0)
	for _, w := range f.asked {
		switch {
		case !w.left:
			waiting++
		case !w.denied:
			left++ // its policy has charged it to the table
		}
	}
	admitted := min(reply.Granted, waiting)
	unused := reply.Granted - admitted
	unused -= min(unused, left)
	level := reply.Level
	if bucket.Level(r.table.Lookup(f.digest), ticks)+admitted*cost > level {
		s.distrust(now) // the store has forgotten some, or was told elsewhere to
	}
	// What is to be given back the table must not learn.
	level -= min(level, f.back+unused*cost)
	if unused > 0 && !f.reset { // a reset takes care of it
		f.giveBackLocked(unused*cost, f.sent)
	}
	// The store has charged at some time after the operation was sent, and the
	// level is of then: dated from when it was sent both are lower bounds of the
	// truth, so they never convict wrongly, however late the answer is. If the
	// bucket was emptied meanwhile the level is of no use.
	sent := r.shape.Ticks(f.sent)
	tat := sent + level
	if f.reset {
		tat = 0
	}
	if admitted > 0 || tat > ticks {
		r.table.Settle(f.digest, sent, admitted*cost, tat)
	}
	tat = max(tat, r.table.Lookup(f.digest)) // which may know more
	for _, w := range f.asked {
		switch {
		case w.left:
		case admitted > 0:
			admitted--
			w.verdict <- r.allowed(StageExact, tat, ticks)
		default:
			w.verdict <- r.denied(StageExact, tat, ticks, cost)
		}
	}
	f.asked = f.asked[:0]
}

// judgeLocked denies those of next whom the table now knows to be over the
// limit, and drops those who left.
func (f *flight) judgeLocked(now time.Duration) {
	r := f.shared.rule
	ticks := r.shape.Ticks(now)
	tat := r.table.Lookup(f.digest)
	rest := f.next[:0]
	for _, w := range f.next {
		switch {
		case w.left:
		case !r.shape.Fits(tat, ticks, w.cost):
			w.verdict <- r.denied(StageTable, tat, ticks, w.cost)
		default:
			rest = append(rest, w)
		}
	}
	f.next = rest
}
