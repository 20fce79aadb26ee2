package fastlimit

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/sketch"
)

// flight is the take of one client that is on its way, with those who wait for
// it and those who arrived since. Its fields are guarded by the lock of its
// shard. It is in the shard's map exactly while an operation is in flight.
type flight struct {
	shared *shared
	digest sketch.Digest
	name   string
	buf    []byte        // for making names
	sent   time.Duration // when the operation was submitted
	asked  []*waiter     // those that the operation asks for, of one cost
	next   []*waiter     // those that arrived since

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

// freeFlight takes a flight that is in no map and that no store knows.
func (s *shared) freeFlight(f *flight) {
	f.asked, f.next, f.name = f.asked[:0], f.next[:0], ""
	s.flights.Put(f)
}

// waiter is a request that waits.
type waiter struct {
	cost    uint64
	verdict chan Decision // buffered: 1
	timer   *time.Timer   // the request's own

	// left is set when the request has stopped waiting, denied if its failure
	// policy denied it. Guarded by the lock of the flight's shard.
	left, denied bool
}

func newWaiter() *waiter {
	w := &waiter{verdict: make(chan Decision, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

func (s *shared) waiter(cost uint64) *waiter {
	w := s.waiters.Get().(*waiter) //nolint:forcetypeassert // ours
	w.cost = cost
	return w
}

// freeWaiter takes one that has its verdict, or that no flight has seen: who
// leaves without a verdict is still in a flight.
func (s *shared) freeWaiter(w *waiter) {
	w.timer.Stop()
	s.waiters.Put(w)
}

// submitLocked asks for all of next that have the cost of the first. It
// reports false, and dissolves the flight, if the store does not take it.
func (f *flight) submitLocked(sh *flightShard, now time.Duration) bool {
	s := f.shared
	cost := f.next[0].cost
	f.asked = f.asked[:0]
	rest := f.next[:0]
	for _, w := range f.next {
		if w.cost == cost {
			f.asked = append(f.asked, w)
		} else {
			rest = append(rest, w)
		}
	}
	f.next, f.sent = rest, now
	f.op = bucket.Op{
		Kind: bucket.Take, Key: f.name, Shape: s.rule.shape,
		Cost: cost, Count: uint64(len(f.asked)), Floor: s.floor(f.digest, now), Done: f.done,
	}
	if s.store.Submit(&f.op) != nil {
		delete(sh.m, f.digest)
		return false
	}
	return true
}

// floor is the level that the table knows the bucket to have at least. By the
// time the store reads it, up to J may have passed, and so much is taken off:
// it must not raise a bucket above the truth.
func (s *shared) floor(d sketch.Digest, now time.Duration) uint64 {
	slack := s.rule.shape.Ticks(s.timeout)
	level := bucket.Level(s.rule.table.Lookup(d), s.rule.shape.Ticks(now))
	return level - min(level, slack)
}

// answer takes the answer, late ones too: it feeds the table, tells those who
// wait, and asks again for those who arrived meanwhile unless the table now
// knows the answer for them.
func (f *flight) answer(reply bucket.Reply, err error) {
	s := f.shared
	sh := s.shard(f.digest)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.rule.limiter.now()
	if err != nil {
		f.failLocked(sh, now)
		return
	}
	f.settleLocked(reply, now)
	f.judgeLocked(now)
	if len(f.next) == 0 {
		delete(sh.m, f.digest)
		s.freeFlight(f)
		return
	}
	if !f.submitLocked(sh, now) {
		f.failLocked(sh, now)
	}
}

// failLocked lets the failure policy decide for everyone and ends the flight.
func (f *flight) failLocked(sh *flightShard, now time.Duration) {
	delete(sh.m, f.digest)
	for _, group := range [][]*waiter{f.asked, f.next} {
		for _, w := range group {
			if !w.left {
				w.verdict <- f.shared.fallback(f.digest, w.cost, now)
			}
		}
	}
	f.shared.freeFlight(f)
}

// settleLocked feeds the table with the answer and hands its grants out: to
// those who wait, first come, first served, then to those who left and were
// admitted. What is left over was charged for requests that have been denied,
// and is given back.
func (f *flight) settleLocked(reply bucket.Reply, now time.Duration) {
	s, r := f.shared, f.shared.rule
	cost := f.asked[0].cost
	ticks := r.shape.Ticks(now)
	// The level is the store's at some time after it was sent: dated from
	// then it is a lower bound of the truth, so it never convicts wrongly.
	tat := r.shape.Ticks(f.sent) + reply.Level
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
	r.table.Settle(f.digest, ticks, admitted*cost, tat)
	if unused := reply.Granted - admitted; unused > left {
		back := (unused - left) * cost
		r.table.Refund(f.digest, ticks, back)
		s.send(bucket.GiveBack, f.name, back)
	}
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
		case r.shape.Fits(tat, ticks, w.cost):
			rest = append(rest, w)
		default:
			w.verdict <- r.denied(StageTable, tat, ticks, w.cost)
		}
	}
	f.next = rest
}
