package redisstore

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/redis/go-redis/v9"
)

// Store is a [bucket.Store] on Redis. It is safe for concurrent use. The zero
// value is not usable: call [Open].
type Store struct {
	config Config
	client *client
	script *script
	clock  func() uint64 // nil but in tests: µs for a script that takes the time from us
	now    func() time.Time
	clocks clocks

	mu     sync.RWMutex // guards closed and the sending side of queue
	closed bool
	queue  chan *bucket.Op

	scattered atomic.Bool // a cluster behind one address: one key for each command

	aborted  atomic.Bool // fail what is queued
	stop     context.CancelFunc
	workers  sync.WaitGroup
	prober   sync.WaitGroup
	breaker  breaker
	alarm    alarm
	distance distance
	counters counters
}

// newStore makes a store that does not run yet.
func newStore(c Config, sc *script) (*Store, error) {
	if err := c.Validate(os.ReadFile); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	o, err := c.options()
	if err != nil {
		return nil, err
	}
	o.IsClusterMode = c.Cluster
	s := &Store{config: c, script: sc, now: time.Now, queue: make(chan *bucket.Op, c.Queue)}
	o.OnConnect = func(context.Context, *redis.Conn) error { s.clocks.forget(); return nil }
	s.client = newClient(o, c.Logger)
	s.alarm.log, s.alarm.target = c.Logger, s.client.target()
	s.distance.log, s.distance.target, s.distance.timeout = c.Logger, s.client.target(), c.Timeout
	s.breaker.log, s.breaker.target = c.Logger, s.client.target()
	s.breaker.min, s.breaker.max = c.RetryMin, c.RetryMax
	s.breaker.trips, s.breaker.probe = &s.counters.trips, s.probeFast
	s.breaker.init()
	return s, nil
}

func (s *Store) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.prober.Go(func() { s.breaker.run(ctx) })
	for range s.config.Workers {
		s.workers.Go(s.work)
	}
}

// Submit implements [bucket.Store]: it never blocks and does no I/O.
func (s *Store) Submit(op *bucket.Op) error {
	if s.breaker.away.Load() {
		s.counters.away.Add(1)
		return bucket.ErrAway
	}
	if op.At.IsZero() && dated(op) {
		op.At = s.now()
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return bucket.ErrAway
	}
	select {
	case s.queue <- op:
		s.counters.operations[op.Kind].Add(1)
		return nil
	default:
		s.counters.busy.Add(1)
		return bucket.ErrBusy
	}
}

// work is one pipeline in flight at a time. What arrives meanwhile is the next
// batch: under load batches grow by themselves, and at rest nobody waits for a
// batch to fill. Under load a worker lets those run first who can: the caller
// that wakes it is rarely the only one who has just got an answer.
func (s *Store) work() {
	b := newBatch()
	crowded := false
	for op := range s.queue {
		if crowded {
			runtime.Gosched()
		}
		b.ops = append(b.ops[:0], op)
		s.fill(b)
		crowded = len(b.ops) > 1
		s.run(b)
	}
}

// fill adds what is queued already.
func (s *Store) fill(b *batch) {
	for len(b.ops) < maxBatch {
		select {
		case op, ok := <-s.queue:
			if !ok {
				return
			}
			b.ops = append(b.ops, op)
		default:
			return
		}
	}
}

// Close implements [bucket.Store]: it sends what is queued, or fails it when
// ctx ends, and closes the connections. Batches in flight are waited for in
// any case: dialing and reading have short timeouts.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.queue)
	s.mu.Unlock()

	unhook := context.AfterFunc(ctx, func() { s.aborted.Store(true) })
	s.workers.Wait()
	unhook()
	s.stop()
	s.prober.Wait()
	err := s.client.close()
	if s.aborted.Load() {
		return ctx.Err()
	}
	return err
}

func (s *Store) extraArgs() []any {
	if s.clock == nil {
		return nil
	}
	now := s.clock()
	return []any{now / 1_000_000, now % 1_000_000}
}
