package exact

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/clock"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// flight is the operation in flight on one client's bucket, with those who wait for it, those who arrived
// since, and what to do after it. It orders this node's operations on a bucket: each is submitted after the
// previous answer. Fields are guarded by the shard's lock. A flight is in the shard's map exactly while an
// operation is in flight.
type flight struct {
	shared *Shared
	digest sketch.Digest
	name   string
	buf    []byte        // for making names
	sent   time.Duration // when the operation was submitted
	asked  []*waiter     // whose charges the operation carries, all of one cost
	next   []*waiter     // who arrived since

	reset bool          // empty the bucket next
	back  uint64        // ticks to refund next
	since time.Duration // when the oldest of them may have been charged

	op   bucket.Op // owned by the store while in flight
	done func(*bucket.Op, bucket.Reply, error)
}

func newFlight(s *Shared) *flight {
	f := &flight{shared: s}
	f.done = func(_ *bucket.Op, reply bucket.Reply, err error) { f.answer(reply, err) }
	return f
}

// submitNextLocked submits the next operation: a reset, a take for those who wait together with a refund, or
// a refund alone. It ends the flight if there is none, or if the store refuses it. tat is the bucket in the
// table, which only operations under this lock raise; only takes use it.
func (f *flight) submitNextLocked(sh *flightShard, read clock.Reading, tat uint64) {
	s := f.shared
	f.op = bucket.Op{Algorithm: s.Shape.Algorithm(), Key: f.name, Shape: s.Shape, Count: 1, At: read.At, CountDenied: s.countDenied, Done: f.done}
	if s.windowed {
		f.op.Window = s.Shape.Window(s.Ticks(read.Now))
	}
	switch {
	case f.reset:
		f.op.Kind, f.reset = bucket.Reset, false
	case len(f.next) > 0:
		f.askLocked(read.Now, tat)
		f.op.Back = f.takeRefundLocked(read.Now)
	case f.back > 0:
		f.op.Kind, f.op.Patience = bucket.Refund, s.timeout
		f.op.Cost = f.takeRefundLocked(read.Now)
	default:
		f.endLocked(sh)
		return
	}
	f.sent = read.Now
	if s.store.Submit(&f.op) != nil {
		f.fallBackLocked(read.Now)
		f.endLocked(sh)
	}
}

// askLocked makes the operation a take of all charges of next with the same cost as the first. It must not be
// carried out after the first of them stopped waiting: late charges were decided without the store, and would
// count against the client from then on instead of from when it asked.
func (f *flight) askLocked(now time.Duration, tat uint64) {
	cost, deadline := f.next[0].cost, f.next[0].deadline
	count, rest := uint64(0), f.next[:0]
	for _, w := range f.next {
		if w.cost != cost {
			rest = append(rest, w)
			continue
		}
		f.asked = append(f.asked, w)
		count = min(count+w.count, bucket.MaxPortable) // no shared store holds more
		deadline = min(deadline, w.deadline)
	}
	f.next = rest
	f.op.Kind, f.op.Cost, f.op.Count = bucket.Take, cost, count
	f.op.Patience = max(deadline-now, 1) // 0 would mean forever
	f.op.Floor = f.shared.floor(f.digest, tat, now)
}

// refundLocked adds a refund of ticks that were charged at since or later. Earlier ones that no longer count
// are dropped.
func (f *flight) refundLocked(ticks uint64, since time.Duration) {
	if f.back > 0 && f.shared.over(f.since, since) {
		f.back = 0
	}
	if f.back == 0 {
		f.since = since
	}
	f.back, f.since = f.back+ticks, min(f.since, since)
}

// takeRefundLocked returns what to refund now. Charges older than J may have leaked, and the refund is
// reduced by that much: otherwise a client would get back what it has used.
func (f *flight) takeRefundLocked(now time.Duration) uint64 {
	s, back := f.shared, f.back
	f.back = 0
	switch {
	case s.over(f.since, now):
		return 0
	case s.Plain:
		leaked := s.Ticks(max(0, now-f.since-s.timeout))
		return back - min(back, leaked)
	}
	return back
}

// over reports whether nothing that was charged at since still counts at now. Buckets leak instead.
func (s *Shared) over(since, now time.Duration) bool {
	//exhaustive:enforce
	switch s.Shape.Algorithm() {
	case bucket.LeakyBucket, bucket.TokenBucket: // never
	case bucket.FixedWindow:
		return s.Shape.Window(s.Ticks(since)) < s.Shape.Window(s.Ticks(now))
	case bucket.SlidingWindow:
		return s.Shape.Window(s.Ticks(since))+1 < s.Shape.Window(s.Ticks(now))
	case bucket.SlidingLog:
		return now-since > s.Shape.Period()
	}
	return false
}

// answer handles an answer, even a late one: it feeds the table, sends decisions to those who wait, and
// continues with those who arrived meanwhile unless the table now decides for them.
func (f *flight) answer(reply bucket.Reply, err error) {
	s := f.shared
	sh := s.shard(f.digest)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	read, tat := s.Clock.Read(), uint64(0)
	// Before anything is judged by it. A reset may wait for any time, so its answer says little.
	if s.windowed && err == nil && f.op.Kind != bucket.Reset {
		s.Clock.ObserveStore(reply.Now, f.sent, read.Now, s.timeout)
	}
	if err != nil {
		f.fallBackLocked(read.Now) // all stop waiting
	} else {
		if f.op.Kind == bucket.Take {
			tat = f.feedTableLocked(reply, read.Now)
		} else {
			tat = s.Table.Lookup(f.digest)
		}
		f.judgeLocked(read.Now, tat)
	}
	f.submitNextLocked(sh, read, tat)
}

// fallBackLocked lets the failure policy decide for everyone who waits.
func (f *flight) fallBackLocked(now time.Duration) {
	f.shared.Distrust(now)
	for _, group := range [...]*[]*waiter{&f.asked, &f.next} {
		for _, w := range *group {
			if !w.left {
				w.verdict <- f.shared.fallback(f.digest, w.claim, now)
			}
		}
		*group = (*group)[:0]
	}
}

// endLocked takes the flight out of the map and releases it.
func (f *flight) endLocked(sh *flightShard) {
	delete(sh.m, f.digest)
	f.name, f.reset, f.back = "", false, 0
	f.shared.flights.Put(f)
}

// feedTableLocked feeds the table with the answer, distributes its grants, and returns the bucket in the
// table. Grants go to those who wait, first come, first served, then to those who left and were admitted. The
// rest was charged for requests that have been denied, and is refunded.
func (f *flight) feedTableLocked(reply bucket.Reply, now time.Duration) (tat uint64) {
	s := f.shared
	cost := f.asked[0].cost
	ticks, sent, before := s.Ticks(now), s.Ticks(f.sent), s.Table.Lookup(f.digest)
	if s.windowed { // the store has said which one it counted in
		sent = s.Shape.WindowTicks(time.Duration(reply.Now) * time.Microsecond)
	}
	waiting, left := uint64(0), uint64(0)
	for _, w := range f.asked {
		switch {
		case !w.left:
			waiting += w.count
		default:
			left += w.granted // the failure policy charged them to the table
		}
	}
	admitted := min(reply.Granted, waiting)
	unused := reply.Granted - admitted
	unused -= min(unused, left)
	known := s.Shape.Reported(sent, reply.Level)
	if s.level(f.digest, before, max(ticks, sent))+admitted*cost > s.storeLevel(known, sent, reply.Level) {
		s.Distrust(now) // the store has forgotten some, or others reported to
	}
	// The table must not learn what will be refunded.
	known = s.Shape.Sub(known, sent, f.back+unused*cost)
	if unused > 0 && !f.reset { // a reset takes care of it
		f.refundLocked(unused*cost, f.sent)
	}
	// The store charged at some time after the operation was sent, and the level is of then: dated from when
	// it was sent both are lower bounds, so they never convict wrongly, however late the answer is. If the
	// bucket was emptied meanwhile the level is useless.
	if f.reset {
		known = 0
	}
	tat = before
	if s.Shape.Live(known, ticks) || admitted > 0 && !s.windowed {
		tat = s.Table.Settle(f.digest, sent, admitted*cost, known)
	}
	if s.shut != nil && known > 0 && unused == 0 {
		retry, _ := s.Shape.Waits(known, sent, time.Duration(reply.Now)*time.Microsecond, s.Shape.Unit())
		s.shut.put(f.digest, f.sent+retry-retry>>bucket.DriftShift)
	}
	known = s.Shape.Join(known, tat) // the table may know more
	for _, w := range f.asked {
		if w.left {
			continue
		}
		granted := min(admitted, w.count)
		admitted -= granted
		d := s.Decision(f.digest, limit.StageExact, granted > 0, known, now, cost)
		if s.Logged {
			s.correct(&d, sent, ticks, reply.Level)
		}
		w.verdict <- verdict{d, granted}
	}
	f.asked = f.asked[:0]
	return tat
}

// judgeLocked denies those of next whom the table now knows to be over the limit, and drops those who left.
func (f *flight) judgeLocked(now time.Duration, tat uint64) {
	s := f.shared
	ticks := s.Ticks(now)
	rest := f.next[:0]
	for _, w := range f.next {
		switch {
		case w.left:
		case s.shut.is(f.digest, now) || !s.Fits(f.digest, tat, ticks, w.cost) && s.MayDeny(tat, ticks):
			w.verdict <- verdict{s.Decision(f.digest, limit.StageTable, false, tat, now, w.cost), 0}
		default:
			rest = append(rest, w)
		}
	}
	f.next = rest
}

// level is that of the bucket of d, whose TAT is tat, in the table.
func (s *Shared) level(d sketch.Digest, tat, ticks uint64) uint64 {
	if s.Logged {
		free, _, _ := s.Table.Log(d, ticks, 0)
		return s.Shape.Limit() - free
	}
	return s.Shape.Level(tat, ticks)
}

// storeLevel is the level by the store's answer.
func (s *Shared) storeLevel(known, sent, level uint64) uint64 {
	if s.Logged {
		return min(level, s.Shape.Limit())
	}
	return s.Shape.Level(known, sent)
}

// correct updates a decision on a log by the store's answer to an operation sent at sent: the table lacks
// other nodes' units, so its word ends too early.
func (s *Shared) correct(d *limit.Decision, sent, ticks, level uint64) {
	most := s.Shape.Limit()
	if d.Remaining > 0 {
		d.Remaining = int64(most - min(level, most))
	}
	if !d.Allowed && level > most && d.RetryAfter != bucket.Never {
		d.RetryAfter = max(d.RetryAfter, s.Shape.Duration(s.Shape.LogWait(s.Shape.Reported(sent, level), ticks)))
	}
}
