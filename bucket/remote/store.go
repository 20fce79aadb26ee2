package remote

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// Config says how a store is used. All fields are required: a driver has
// documented settings and defaults for them.
type Config struct {
	Name   string // of the store and of its section of the settings, in logs: "redis"
	Target string // its servers, for logs, without secrets

	Classes []*Class // all that Driver.Classify returns

	Timeout            time.Duration // after which an answer counts as slow
	Workers            int           // batches in flight
	Queue              int           // operations that may wait for a worker
	RetryMin, RetryMax time.Duration // bounds of the pause between probes

	Logger *slog.Logger
}

// Store is a [bucket.Store] that reaches its buckets through a [Driver]. It is
// safe for concurrent use. The zero value is not usable: call [Start].
type Store struct {
	config Config
	driver Driver

	mu     sync.RWMutex // guards closed and the sending side of queue
	closed bool
	queue  chan *bucket.Op

	aborted atomic.Bool // fail the queued operations
	stop    context.CancelFunc
	workers sync.WaitGroup
	prober  sync.WaitGroup

	slow     *Error               // how a batch that was answered late counts
	classes  map[*Class]*failures // all of Config; never changes
	breaker  breaker
	distance distance
	counters counters
}

// Start starts a store. away is the outcome of the driver's own check. If it is an error,
// the breaker is open from the start, so that no request runs into the error. If it is nil,
// Start first measures the distance, until ctx ends.
func Start(ctx context.Context, d Driver, c Config, away error) *Store {
	s := &Store{config: c, driver: d, queue: make(chan *bucket.Op, c.Queue)}
	slow := *d.Classify(context.DeadlineExceeded)
	slow.Err = errSlow
	s.slow = &slow
	s.classes = make(map[*Class]*failures, len(c.Classes))
	for _, class := range c.Classes {
		s.classes[class] = new(failures)
	}
	s.distance.config = &s.config
	s.breaker.init(&s.config, s.probe)
	if away != nil {
		s.breaker.open(d.Classify(away))
	} else {
		_ = s.measure(ctx) // operations will run into the same error
	}
	ctx, s.stop = context.WithCancel(context.Background())
	s.prober.Go(func() { s.breaker.run(ctx) })
	for range c.Workers {
		s.workers.Go(s.work)
	}
	return s
}

// Runs implements [bucket.Store].
func (s *Store) Runs(a bucket.Algorithm) bool { return s.driver.Runs(a) }

// Submit implements [bucket.Store]: it never blocks and does no I/O.
func (s *Store) Submit(op *bucket.Op) error {
	if s.breaker.away.Load() {
		s.counters.away.Add(1)
		return bucket.ErrAway
	}
	if op.At.IsZero() && Dated(op) {
		op.At = time.Now()
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return bucket.ErrAway
	}
	kind := op.Kind // once queued, op belongs to a worker
	select {
	case s.queue <- op:
		s.counters.operations[kind].Add(1)
		return nil
	default:
		s.counters.busy.Add(1)
		return bucket.ErrBusy
	}
}

// Close implements [bucket.Store]. It sends the queued operations, or fails them when ctx
// ends, and closes the driver. It always waits for batches in flight, as drivers bound
// their time.
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
	err := s.driver.Close()
	if s.aborted.Load() {
		return ctx.Err()
	}
	return err
}
