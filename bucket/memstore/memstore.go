// Package memstore is a [bucket.Store] in memory, for tests. Its map has an entry
// for every client and never shrinks, so it must not face a flood.
package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
)

// Config of a [Store].
type Config struct {
	// Now is the clock in µs since some start. It need not be monotonic.
	// Default: the wall clock.
	Now func() uint64
	// Queue is how many operations may wait. Default 1024.
	Queue int
}

// Store keeps buckets in a map. It is safe for concurrent use. The zero value
// is not usable: call [New].
type Store struct {
	now    func() uint64
	queue  chan queued
	worker sync.WaitGroup

	mu     sync.RWMutex // guards closed and the sending side of queue
	closed bool

	stateMu sync.Mutex
	states  map[string]step.State
}

// queued is an operation and the store's time at its At.
type queued struct {
	op   *bucket.Op
	date uint64
}

// New starts a store with one goroutine; Close ends it.
func New(c Config) *Store {
	if c.Now == nil {
		c.Now = func() uint64 { return uint64(time.Now().UnixMicro()) }
	}
	if c.Queue <= 0 {
		c.Queue = 1024
	}
	s := &Store{
		now:    c.Now,
		queue:  make(chan queued, c.Queue),
		states: make(map[string]step.State),
	}
	s.worker.Go(s.work)
	return s
}

// Runs implements [bucket.Store].
func (*Store) Runs(a bucket.Algorithm) bool { return step.Runs(a) }

// Submit implements [bucket.Store].
func (s *Store) Submit(op *bucket.Op) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return bucket.ErrAway
	}
	select {
	case s.queue <- queued{op, s.date(op)}:
		return nil
	default:
		return bucket.ErrBusy
	}
}

// date returns the store's time at op.At, or now if that is not set. It is rounded down, so
// that an operation never looks younger than it is.
func (s *Store) date(op *bucket.Op) uint64 {
	now := s.now()
	if op.At.IsZero() {
		return now
	}
	age := uint64(max(0, time.Since(op.At)+time.Microsecond-1) / time.Microsecond)
	return now - min(age, now)
}

// Close implements [bucket.Store]. It completes the queued operations whatever ctx says, as
// none waits for I/O.
func (s *Store) Close(context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.queue)
	}
	s.mu.Unlock()
	s.worker.Wait()
	return nil
}

// State returns what is stored under key.
func (s *Store) State(key string) step.State {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	return s.states[key]
}

// Forget empties the store, as a restart would, including the marks of refunds and resets.
func (s *Store) Forget() {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	clear(s.states)
}

func (s *Store) work() {
	for q := range s.queue {
		reply, err := s.apply(q)
		q.op.Done(q.op, reply, err)
	}
}

func (s *Store) apply(q queued) (bucket.Reply, error) {
	if !s.Runs(q.op.Algorithm) {
		return bucket.Reply{}, bucket.ErrAlgorithm
	}
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	now := s.now()
	next, r := step.Apply(s.states[q.op.Key], now, step.NewRequest(q.op, q.date))
	if r.Late {
		return bucket.Reply{}, bucket.ErrLate
	}
	if r.Write {
		s.states[q.op.Key] = next
	}
	return bucket.Reply{Granted: r.Granted, Level: r.Level, Now: now}, nil
}
