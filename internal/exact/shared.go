package exact

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// Shared asks the exact tier that nodes share on behalf of one rule. At most one operation of any kind is in
// flight per client's bucket; requests that arrive meanwhile are judged on its result, and refunds and resets
// wait for it too (P4). Requests wait for an answer until their deadline and do no I/O themselves.
type Shared struct {
	Buckets // the rule's: what this node knows

	rule    string // its name, part of bucket names
	store   bucket.Store
	timeout time.Duration // J, the longest wait for the store
	shards  [64]flightShard

	// doubt is until when takes carry floors, on the limiter's clock: a full drain time after the table last
	// got ahead of the store.
	doubt atomic.Int64

	shut *shut // of a rule with sliding windows, else nil

	// Pooled: a take allocated 11 times without it (BenchmarkShared). Only the bucket's name is still
	// allocated, since a store may keep it.
	flights, waiters sync.Pool
}

// flightShard is one of 64 parts of the operations in flight, each in its own cache line.
type flightShard struct {
	mu sync.Mutex
	m  map[sketch.Digest]*flight // guarded by mu
	_  [64 - 16]byte
}

// NewShared returns a Shared for the rule of that name. No request waits longer than the timeout.
func NewShared(b Buckets, rule string, store bucket.Store, timeout time.Duration) *Shared {
	s := &Shared{Buckets: b, rule: rule, store: store, timeout: timeout}
	if b.Shape.Algorithm() == bucket.SlidingWindow && !b.countDenied {
		s.shut = new(shut)
	}
	for i := range s.shards {
		s.shards[i].m = map[sketch.Digest]*flight{}
	}
	s.flights.New = func() any { return newFlight(s) }
	s.waiters.New = func() any { return newWaiter() }
	return s
}

// WithBuckets returns a Shared for other buckets, such as another rate's, of the same clients, names and
// store.
func (s *Shared) WithBuckets(b Buckets) *Shared { return NewShared(b, s.rule, s.store, s.timeout) }

// ShareDenials makes s share other's memory of the store's denials: a client has one limit among a rule and
// its tiers, so one memory is enough. s must be new.
func (s *Shared) ShareDenials(other *Shared) { s.shut = other.shut }

// Store returns the store that it asks.
func (s *Shared) Store() bucket.Store { return s.store }

// InFlight returns how many operations are in flight, for tests.
func (s *Shared) InFlight() (n int) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n += len(sh.m)
		sh.mu.Unlock()
	}
	return n
}

func (s *Shared) shard(d sketch.Digest) *flightShard { return &s.shards[d.Pos>>8%64] }

// claim is what a request asks of the shared tier: a take asks for one charge, a TakeUpTo for as many charges
// of one unit as fit. The store grants part of several takes as well, so the two may share an operation.
type claim struct {
	cost     uint64 // ticks of one charge
	count    uint64 // charges, at most the burst
	deadline time.Duration
	policy   limit.OnFailure // decides if there is no answer by then
}

// waiter is a request that waits.
type waiter struct {
	claim
	verdict chan verdict // buffered: 1
	timer   *time.Timer  // the request's own

	// left is set when the request has stopped waiting, with the charges that were granted to it then.
	// Guarded by the lock of the flight's shard.
	left    bool
	granted uint64
}

// verdict is the decision on a claim and how many of its charges are granted.
type verdict struct {
	limit.Decision

	granted uint64
}

func newWaiter() *waiter {
	w := &waiter{verdict: make(chan verdict, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

func (s *Shared) waiter(c claim) *waiter {
	w := s.waiters.Get().(*waiter) // ours
	w.claim = c
	return w
}

// freeWaiter takes back a waiter that has received its verdict. One that left without may still be in a
// flight.
func (s *Shared) freeWaiter(w *waiter) {
	w.timer.Stop()
	s.waiters.Put(w)
}

func (s *Shared) flight(c Client) *flight {
	f := s.flights.Get().(*flight) // ours
	f.digest, f.buf = c.Digest, appendName(f.buf[:0], s.rule, c)
	f.name = string(f.buf)
	return f
}

// Abandoned is the verdict on a request whose context ended before there was one. It is a denial under every
// failure policy, or hanging up would lift the limit.
func Abandoned() limit.Decision {
	return limit.Decision{Outcome: limit.Outcome{Stage: limit.StageExact}, Remaining: limit.RemainingUnknown}
}

// Take decides on a suspect's request of that cost, read at now: by the table if it knows the answer, by the
// shared bucket if that answers before the timeout, else by the failure policy.
func (s *Shared) Take(ctx context.Context, of Client, cost uint64, now time.Duration, policy limit.OnFailure) limit.Decision {
	d, _ := s.take(ctx, of, claim{cost, 1, now + s.timeout, policy})
	return d
}

// TakeUpTo is Take for as many of n units as fit, and returns how many are taken.
func (s *Shared) TakeUpTo(ctx context.Context, of Client, n uint64, now time.Duration, policy limit.OnFailure) (limit.Decision, uint64) {
	return s.take(ctx, of, claim{s.Shape.Part(), n, now + s.timeout, policy})
}

// take returns how many charges are granted.
func (s *Shared) take(ctx context.Context, of Client, c claim) (limit.Decision, uint64) {
	if ctx.Err() != nil {
		return Abandoned(), 0
	}
	v := s.ask(ctx, of, c)
	return v.Decision, v.granted
}

func (s *Shared) ask(ctx context.Context, of Client, c claim) verdict {
	w, v, now := s.join(of, c)
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
	return s.leave(of.Digest, w, ctx.Err() != nil)
}

// join makes the request wait for an answer, or decides at once and returns no waiter. It reads the clock
// again: the request may have waited for a core since its own reading, or for the lock.
func (s *Shared) join(of Client, c claim) (*waiter, verdict, time.Duration) {
	d := of.Digest
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	read := s.Clock.Read()
	// An answer may have come since the table was asked; see feedTableLocked.
	tat := s.Lookup(d, read.Now)
	if ticks := s.Ticks(read.Now); s.shut.is(d, read.Now) || !s.Fits(d, tat, ticks, c.cost) && s.MayDeny(tat, ticks) {
		return nil, verdict{s.Decision(d, limit.StageTable, false, tat, read.Now, c.cost), 0}, read.Now
	}
	f := sh.m[d]
	if read.Now >= c.deadline || f != nil && read.Now-f.sent > s.timeout {
		// Too late, or an answer is overdue: waiting for it would cost every request the whole timeout.
		return nil, s.fallback(d, c, read.Now), read.Now
	}
	w := s.waiter(c)
	if f != nil {
		f.next = append(f.next, w)
		return w, verdict{}, read.Now
	}
	f = s.flight(of)
	f.next = append(f.next, w)
	sh.m[d] = f
	f.submitNextLocked(sh, read, tat) // if the store does not take it, w has its verdict
	return w, verdict{}, read.Now
}

// leave ends a wait without an answer, unless it has come just now.
func (s *Shared) leave(d sketch.Digest, w *waiter, hungUp bool) verdict {
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	select {
	case v := <-w.verdict:
		s.freeWaiter(w)
		return v
	default:
	}
	v := verdict{Abandoned(), 0}
	if !hungUp {
		v = s.fallback(d, w.claim, s.Clock.Late(s.Clock.Now()))
	}
	w.left, w.granted = true, v.granted
	return v
}

// Refund returns cost to the bucket: at once in the table, and in the store
// after the operation in flight.
func (s *Shared) Refund(of Client, cost uint64) {
	s.amend(of, func(f *flight, now time.Duration) {
		s.Table.Refund(f.digest, s.Ticks(now), cost)
		s.shut.clear(f.digest)
		f.refundLocked(cost, now)
	})
}

// RefundHere refunds what the failure policy charged to the table. The store gets no refund, as it need not
// have charged anything; if it did and says so later, the client stays charged.
func (s *Shared) RefundHere(d sketch.Digest, cost uint64) {
	s.Table.Refund(d, s.Ticks(s.Clock.Late(s.Clock.Now())), cost)
}

// Reset empties the bucket: at once in the table, and in the store after the
// operation in flight.
func (s *Shared) Reset(of Client) {
	s.amend(of, func(f *flight, _ time.Duration) {
		s.Table.Reset(f.digest)
		s.shut.clear(f.digest)
		f.reset, f.back = true, 0
	})
}

// amend changes the flight of a client, and starts it if there is none. If the store is away, the change
// there is lost: the client stays charged, on the safe side of P2.
func (s *Shared) amend(of Client, change func(*flight, time.Duration)) {
	d := of.Digest
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	f := sh.m[d]
	started := f == nil
	if started {
		f = s.flight(of)
		sh.m[d] = f
	}
	read := s.Clock.Read()
	if change(f, read.Now); started {
		f.submitNextLocked(sh, read, 0) // no take, so no floor
	}
}
