package fastlimit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/sketch"
)

// closedRetry is the RetryAfter of a FailClosed denial: there is no bucket to
// ask when.
const closedRetry = time.Second

// shared asks the exact tier that nodes share on behalf of one rule. At most
// one operation on a client's bucket is in flight, whatever it is; whoever
// arrives meanwhile is judged on its result, and refunds and resets wait for it
// too (P4). Requests wait for an answer until their deadline and do no I/O
// themselves.
type shared struct {
	buckets // the rule's: what this node knows
	namer

	store   bucket.Store
	timeout time.Duration // J
	shards  [64]flightShard

	// doubt is until when takes carry floors, on the limiter's clock: a full
	// drain time after the table last came to know more than the store may.
	doubt atomic.Int64

	shut *shut // of a rule with sliding windows, else nil

	// Pooled: a take allocated 11 times without it (BenchmarkShared). The
	// name of the bucket is what it still allocates, since a store may keep it.
	flights, waiters sync.Pool
}

// flightShard is one of 64 parts of the operations in flight, each in a cache
// line of its own.
type flightShard struct {
	mu sync.Mutex
	m  map[sketch.Digest]*flight // guarded by mu
	_  [64 - 16]byte
}

func newShared(r *Rule, store bucket.Store, timeout time.Duration) *shared {
	s := &shared{buckets: r.buckets, namer: r.namer, store: store, timeout: timeout}
	if r.shape.Algorithm() == bucket.SlidingWindow && !r.countDenied {
		s.shut = new(shut)
	}
	for i := range s.shards {
		s.shards[i].m = map[sketch.Digest]*flight{}
	}
	s.flights.New = func() any { return newFlight(s) }
	s.waiters.New = func() any { return newWaiter() }
	return s
}

func (s *shared) shard(d sketch.Digest) *flightShard { return &s.shards[d.Pos>>8%64] }

// claim is what a request asks of the shared tier: a take one charge, a TakeUpTo
// as many as fit of one unit each. The store grants them in part anyway, as it
// does to several takes, so that the two may share an operation.
type claim struct {
	cost     uint64 // ticks of one charge
	count    uint64 // charges, at most the burst
	deadline time.Duration
	policy   OnFailure // what decides if there is no answer by then
}

// waiter is a request that waits.
type waiter struct {
	claim
	verdict chan verdict // buffered: 1
	timer   *time.Timer  // the request's own

	// left is set when the request has stopped waiting, with the charges that
	// were granted to it then. Guarded by the lock of the flight's shard.
	left    bool
	granted uint64
}

// verdict is the decision on a claim and how many of its charges are granted.
type verdict struct {
	Decision

	granted uint64
}

func newWaiter() *waiter {
	w := &waiter{verdict: make(chan verdict, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

func (s *shared) waiter(c claim) *waiter {
	w := s.waiters.Get().(*waiter) // ours
	w.claim = c
	return w
}

// freeWaiter takes back a waiter that has received its verdict. One that leaves
// without may still be in a flight.
func (s *shared) freeWaiter(w *waiter) {
	w.timer.Stop()
	s.waiters.Put(w)
}

func (s *shared) flight(d sketch.Digest, key Key) *flight {
	f := s.flights.Get().(*flight) // ours
	f.digest, f.buf = d, s.appendStored(f.buf[:0], key)
	f.name = string(f.buf)
	return f
}

// abandoned is the verdict on a request whose context ended before there was
// one: a denial whatever the failure policy, or hanging up would lift the limit.
func abandoned() Decision {
	return Decision{Outcome: Outcome{Stage: StageExact}, Remaining: RemainingUnknown}
}

// take decides on a suspect: by the table if it knows by now, by the shared
// bucket if that answers before the deadline, else by the failure policy. It
// returns how many charges are granted.
func (s *shared) take(ctx context.Context, key Key, c claim) (Decision, uint64) {
	if ctx.Err() != nil {
		return abandoned(), 0
	}
	v := s.ask(ctx, key, c)
	return v.Decision, v.granted
}

func (s *shared) ask(ctx context.Context, key Key, c claim) verdict {
	d := key.digest()
	w, v, now := s.join(key, d, c)
	if w == nil {
		return v
	}
	w.timer.Reset(c.deadline - now)
	select {
	case v = <-w.verdict:
		s.freeWaiter(w)
		return v
	case <-w.timer.C:
	case <-ctx.Done():
	}
	return s.leave(d, w, ctx.Err() != nil)
}

// join makes the request wait for an answer, or decides at once and returns no
// waiter. It reads the clock once more: the request may have waited for a core
// since its own reading, or for the lock.
func (s *shared) join(key Key, d sketch.Digest, c claim) (*waiter, verdict, time.Duration) {
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	read := s.clock.Read()
	// An answer may have come since checkTable; see feedTableLocked.
	tat := s.lookup(d, read.Now)
	if ticks := s.ticks(read.Now); s.shut.is(d, read.Now) || !s.fits(d, tat, ticks, c.cost) && s.stands(tat, ticks) {
		return nil, verdict{s.decisionOn(d, StageTable, false, tat, read.Now, c.cost), 0}, read.Now
	}
	f := sh.m[d]
	if read.Now >= c.deadline || f != nil && read.Now-f.sent > s.timeout {
		// Too late, or an answer is overdue: waiting for it would cost every
		// request the whole timeout.
		return nil, s.fallback(d, c, read.Now), read.Now
	}
	w := s.waiter(c)
	if f != nil {
		f.next = append(f.next, w)
		return w, verdict{}, read.Now
	}
	f = s.flight(d, key)
	f.next = append(f.next, w)
	sh.m[d] = f
	f.submitNextLocked(sh, read, tat) // if the store does not take it, w has its verdict
	return w, verdict{}, read.Now
}

// leave ends a wait without an answer, unless it has come just now.
func (s *shared) leave(d sketch.Digest, w *waiter, hungUp bool) verdict {
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	select {
	case v := <-w.verdict:
		s.freeWaiter(w)
		return v
	default:
	}
	v := verdict{abandoned(), 0}
	if !hungUp {
		v = s.fallback(d, w.claim, s.clock.Late(s.clock.Now()))
	}
	w.left, w.granted = true, v.granted
	return v
}

// fallback is the verdict of the failure policy.
func (s *shared) fallback(d sketch.Digest, c claim, now time.Duration) verdict {
	s.distrust(now)
	s.lookup(d, now) // forgets what the policy must not count
	var v verdict
	switch c.policy {
	case FailOpen:
		v = verdict{admitUnchecked(StageFallback), c.count}
	case FailClosed:
		v.RetryAfter = closedRetry
	default:
		// Charged as of the deadline at the latest: if this process stood still
		// since, a charge as of now would convict the requests after this one.
		tat, granted := s.takeLocal(d, c.cost, c.count, min(now, c.deadline))
		if granted < c.count && now > c.deadline {
			var more uint64
			tat, more = s.takeLocal(d, c.cost, c.count-granted, now)
			granted += more
		}
		if granted < c.count && s.countDenied { // unless it fits by now
			var ok bool
			if tat, ok = s.table.TakeCounted(d, s.ticks(now), (c.count-granted)*c.cost); ok {
				granted = c.count
			}
		}
		v = verdict{s.decisionOn(d, StageFallback, granted > 0, tat, now, c.cost), granted}
	}
	v.Stage, v.Degraded = StageFallback, true
	return v
}

// takeLocal charges this node's table with as many of count charges as fit.
func (s *shared) takeLocal(d sketch.Digest, cost, count uint64, now time.Duration) (tat, granted uint64) {
	if count > 1 { // of a TakeUpTo, one unit each
		return s.fill(d, count, now)
	}
	tat, ok := s.table.Take(d, s.ticks(now), cost)
	if ok {
		granted = 1
	}
	return tat, granted
}

// distrust lets takes carry floors until the table knows nothing from before.
func (s *shared) distrust(now time.Duration) {
	s.doubt.Store(int64(now + s.shape.MaxDrain()))
}

// floor is the level that the bucket of d has at least, by the table's TAT, if the
// store may know of less; see [bucket.Op].
func (s *shared) floor(d sketch.Digest, tat uint64, now time.Duration) uint64 {
	if int64(now) >= s.doubt.Load() {
		return 0
	}
	ticks := s.ticks(now)
	switch {
	case s.logged:
		return s.table.LatelyLogged(d, ticks)
	case s.windowed && s.shape.Live(tat, ticks) && s.shape.WindowOf(tat) > s.shape.Window(ticks):
		return 0 // the store is not there yet
	case s.shape.Algorithm() == bucket.SlidingWindow:
		_, level := s.shape.Counts(tat, ticks)
		return level
	}
	return s.shape.Level(tat, ticks)
}

// refund returns cost to the bucket: at once in the table, and in the store
// after the operation in flight.
func (s *shared) refund(key Key, cost uint64) {
	s.amend(key, func(f *flight, now time.Duration) {
		s.table.Refund(f.digest, s.ticks(now), cost)
		s.shut.clear(f.digest)
		f.refundLocked(cost, now)
	})
}

// refundLocal returns what the failure policy has charged to the table. The
// store gets nothing back, as it need not have charged anything; if it did, and
// says so later, the client stays charged.
func (s *shared) refundLocal(key Key, cost uint64) {
	s.table.Refund(key.digest(), s.ticks(s.clock.Late(s.clock.Now())), cost)
}

// reset empties the bucket: at once in the table, and in the store after the
// operation in flight.
func (s *shared) reset(key Key) {
	s.amend(key, func(f *flight, _ time.Duration) {
		s.table.Reset(f.digest)
		s.shut.clear(f.digest)
		f.reset, f.back = true, 0
	})
}

// amend changes the flight of a client, and starts it if there is none. If the
// store is away, what was to be done there is lost: the client stays charged,
// on the safe side of P2.
func (s *shared) amend(key Key, change func(*flight, time.Duration)) {
	d := key.digest()
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	f := sh.m[d]
	started := f == nil
	if started {
		f = s.flight(d, key)
		sh.m[d] = f
	}
	read := s.clock.Read()
	if change(f, read.Now); started {
		f.submitNextLocked(sh, read, 0) // no take, so no floor
	}
}
