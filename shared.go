package fastlimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/sketch"
)

// OnFailure is what a rule does with a request whose shared exact bucket could
// not be asked in time.
type OnFailure uint8

// The failure policies. The zero value is FailLocal.
const (
	// FailLocal lets this node's own table decide, which holds what the
	// shared tier answered last: every node keeps the limit by itself.
	FailLocal  OnFailure = iota
	FailOpen             // admit
	FailClosed           // deny: the stated exception to P1
)

// String is the policy's name in configuration.
func (f OnFailure) String() string {
	switch f {
	case FailOpen:
		return "open"
	case FailClosed:
		return "closed"
	}
	return "local"
}

// closedRetry is the RetryAfter of a FailClosed denial: there is no bucket to
// ask when.
const closedRetry = time.Second

// shared asks the exact tier that nodes share on behalf of one rule. At most
// one operation on a client's bucket is on its way, whatever it is; whoever
// arrives meanwhile is judged on its result, and what is to be given back or
// emptied waits for it too (P4). Requests wait for an answer until their
// deadline and do no I/O themselves.
type shared struct {
	rule    *Rule
	store   bucket.Store
	timeout time.Duration // J
	shards  [64]flightShard

	// doubt is until when takes carry floors, on the limiter's clock: a full
	// drain time after the table last came to know more than the store may.
	doubt atomic.Int64

	// Pooled: a take allocated 11 times without it (BenchmarkShared). The
	// pools are the rule's own, since a channel must not leave the synctest
	// bubble it was made in.
	flights, waiters sync.Pool
}

type flightShard struct {
	mu sync.Mutex
	m  map[sketch.Digest]*flight // guarded by mu
	_  [64 - 16]byte             // a cache line each
}

func newShared(r *Rule, store bucket.Store, timeout time.Duration) *shared {
	s := &shared{rule: r, store: store, timeout: timeout}
	for i := range s.shards {
		s.shards[i].m = map[sketch.Digest]*flight{}
	}
	s.flights.New = func() any { return newFlight(s) }
	s.waiters.New = func() any { return newWaiter() }
	return s
}

func (s *shared) shard(d sketch.Digest) *flightShard { return &s.shards[d.Pos>>8%64] }

// abandoned is the verdict on a request whose context ended before there was
// one: a denial whatever the failure policy, or hanging up would lift the limit.
func abandoned() Decision {
	return Decision{Outcome: Outcome{Stage: StageExact}, Remaining: Unknown}
}

// take decides on a suspect: by the table if it knows by now, by the shared
// bucket if that answers before the deadline, else by the failure policy.
func (s *shared) take(ctx context.Context, key Key, cost uint64, deadline time.Duration) Decision {
	if ctx.Err() != nil {
		return abandoned()
	}
	d := key.digest()
	w, verdict, now := s.join(key, d, cost, deadline)
	if w == nil {
		return verdict
	}
	w.timer.Reset(deadline - now)
	select {
	case verdict = <-w.verdict:
		s.freeWaiter(w)
		return verdict
	case <-w.timer.C:
	case <-ctx.Done():
	}
	return s.leave(d, w, ctx.Err() != nil)
}

// join makes the request wait for an answer, or decides at once and returns
// no waiter.
func (s *shared) join(key Key, d sketch.Digest, cost uint64, deadline time.Duration) (*waiter, Decision, time.Duration) {
	r := s.rule
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := r.limiter.now()
	// An answer may have come since the table was read; see settleLocked.
	ticks := r.shape.Ticks(now)
	if tat := r.table.Lookup(d); !r.shape.Fits(tat, ticks, cost) {
		return nil, r.denied(StageTable, tat, ticks, cost), now
	}
	f := sh.m[d]
	if now >= deadline || f != nil && now-f.sent > s.timeout {
		// Too late, or an answer is overdue: waiting for it would cost every
		// request the whole timeout.
		return nil, s.fallback(d, cost, now), now
	}
	w := s.waiter(cost, deadline)
	if f != nil {
		f.next = append(f.next, w)
		return w, Decision{}, now
	}
	f = s.flight(d, key)
	f.next = append(f.next, w)
	sh.m[d] = f
	f.goOnLocked(sh) // if the store does not take it, w has its verdict
	return w, Decision{}, now
}

// leave ends a wait without an answer, unless it has come just now.
func (s *shared) leave(d sketch.Digest, w *waiter, hungUp bool) Decision {
	sh := s.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	select {
	case verdict := <-w.verdict:
		s.freeWaiter(w)
		return verdict
	default:
	}
	verdict := abandoned()
	if !hungUp {
		verdict = s.fallback(d, w.cost, s.rule.limiter.now())
	}
	w.left, w.denied = true, !verdict.Allowed
	return verdict
}

// fallback is the verdict of the failure policy.
func (s *shared) fallback(d sketch.Digest, cost uint64, now time.Duration) Decision {
	r := s.rule
	s.distrust(now)
	var verdict Decision
	switch r.config.OnFailure {
	case FailOpen:
		verdict = passed(StageFallback)
	case FailClosed:
		verdict = Decision{RetryAfter: closedRetry}
	default:
		ticks := r.shape.Ticks(now)
		if tat, ok := r.table.Take(d, ticks, cost); ok {
			verdict = r.allowed(StageFallback, tat, ticks)
		} else {
			verdict = r.denied(StageFallback, tat, ticks, cost)
		}
	}
	verdict.Stage, verdict.Degraded = StageFallback, true
	return verdict
}

// distrust lets takes carry floors until the table knows nothing from before.
func (s *shared) distrust(now time.Duration) {
	s.doubt.Store(int64(now + s.rule.shape.MaxDrain()))
}

// floor is the level that the table knows the bucket to have at least, if the
// store may know of less.
func (s *shared) floor(d sketch.Digest, now time.Duration) uint64 {
	if int64(now) >= s.doubt.Load() {
		return 0
	}
	return bucket.Level(s.rule.table.Lookup(d), s.rule.shape.Ticks(now))
}

// giveBack returns cost to the bucket: at once in the table, and in the store
// after what is in flight.
func (s *shared) giveBack(key Key, cost uint64) {
	s.amend(key, func(f *flight, now time.Duration) {
		s.rule.table.Refund(f.digest, s.rule.shape.Ticks(now), cost)
		f.giveBackLocked(cost, now)
	})
}

// reset empties the bucket: at once in the table, and in the store after what
// is in flight.
func (s *shared) reset(key Key) {
	s.amend(key, func(f *flight, _ time.Duration) {
		s.rule.table.Reset(f.digest)
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
	if change(f, s.rule.limiter.now()); started {
		f.goOnLocked(sh)
	}
}

// appendName appends the bucket's name in the store: the rule's name and the
// client's. Long client names, which clients write, are replaced by their hash.
func (s *shared) appendName(b []byte, key Key) []byte {
	const longest = 120
	b = append(append(b, s.rule.config.Name...), ':')
	n := len(b)
	if b = s.rule.AppendKey(b, key); len(b)-n > longest {
		sum := sha256.Sum256(b[n:])
		b = hex.AppendEncode(append(b[:n], '#'), sum[:])
	}
	return b
}
