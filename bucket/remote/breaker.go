package remote

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	// tripAfter consecutive bad batches mean that the store is away. It exceeds
	// the default of two workers, whose connections may break at the same time.
	tripAfter = 5

	// So do bad batches that are half of at least tripRequests within
	// tripWindow: such a store answers too rarely to be of use.
	tripRequests = 20
	tripWindow   = time.Second
)

// breaker keeps operations away from a store that does not answer. It probes in a separate
// goroutine, one attempt at a time.
type breaker struct {
	config *Config
	probe  func(context.Context) *Error

	mu  sync.Mutex // held while an outcome is reported; guards row
	row int        // bad batches since the last good one
	cb  *gobreaker.TwoStepCircuitBreaker[struct{}]

	away     atomic.Bool   // not closed
	wake     chan struct{} // capacity 1: the breaker has opened
	last     atomic.Pointer[Error]
	openedAt atomic.Int64 // UnixNano of the trip
	trips    atomic.Uint64

	// Used by the prober only.
	pause    time.Duration // the longest that the next pause between probes may be
	closedAt time.Time     // when the breaker closed last
}

func (b *breaker) init(c *Config, probe func(context.Context) *Error) {
	b.config, b.probe = c, probe
	b.wake = make(chan struct{}, 1)
	b.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Interval:     tripWindow,
		BucketPeriod: tripWindow / 10,
		Timeout:      c.RetryMin / 2, // below every pause of the prober
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return b.row >= tripAfter || c.Requests >= tripRequests && 2*c.TotalFailures >= c.Requests
		},
		OnStateChange: func(_ string, from, to gobreaker.State) { b.changed(from, to) },
	})
}

// changed runs while gobreaker holds its lock and report may hold mu, so it must not call
// cb or take mu.
func (b *breaker) changed(from, to gobreaker.State) {
	b.away.Store(to != gobreaker.StateClosed)
	switch {
	case from == gobreaker.StateClosed:
		b.trips.Add(1)
		b.openedAt.Store(time.Now().UnixNano())
		err := b.last.Load()
		b.config.Logger.Warn(b.config.Name+" is away, deciding without it", b.config.Name, b.config.Target, "class", err.Class.Name, "error", err.text())
		select {
		case b.wake <- struct{}{}:
		default:
		}
	case to == gobreaker.StateClosed:
		b.config.Logger.Info(b.config.Name+" is back", b.config.Name, b.config.Target,
			"after", time.Since(time.Unix(0, b.openedAt.Load())).Round(time.Millisecond))
	}
}

// begin returns the number of times that the breaker had opened when a batch began, for
// report. ok is false if the batch must not be sent.
func (b *breaker) begin() (trips uint64, ok bool) {
	trips = b.trips.Load()
	return trips, !b.away.Load()
}

// report counts the outcome of a batch or probe. One that began before the breaker
// opened says nothing about the store as it is now.
//
// gobreaker learns of a batch when it ends, so one that began longer ago than tripWindow
// would not count there. It also forgets consecutive failures as they leave the window, so
// those of a store that takes long to fail would never be five. So row counts them
// (TestBreakerOpens, TestLongBatchesCount).
func (b *breaker) report(trips uint64, e *Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trips != b.trips.Load() {
		return
	}
	done, err := b.cb.Allow()
	switch {
	case err != nil: // it is open, and the probe came too early
	case e == nil:
		b.row = 0
		done(nil)
	default:
		b.row++
		b.last.Store(e)
		done(e)
	}
}

// open trips the breaker for an error that was found elsewhere.
func (b *breaker) open(e *Error) {
	for range tripAfter {
		if trips, ok := b.begin(); ok {
			b.report(trips, e)
		}
	}
}

func (b *breaker) state() string { return b.cb.State().String() }

// run probes whenever the breaker has opened, until ctx ends.
func (b *breaker) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
			b.recover(ctx)
		}
	}
}

// recover probes until the breaker is closed, after pauses that double. If a store fails
// again soon after it came back, they continue from where they were. A quarter of each is
// random, so that nodes which lost a store together do not return to it together.
func (b *breaker) recover(ctx context.Context) {
	c := b.config
	if time.Since(b.closedAt) > 10*c.RetryMax {
		b.pause = c.RetryMin
	}
	for b.away.Load() {
		if b.last.Load().Class.Cause == Misconfigured {
			b.pause = c.RetryMax
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(b.pause - rand.N(b.pause/4+1)):
		}
		b.pause = min(2*b.pause, c.RetryMax)
		b.report(b.trips.Load(), b.probe(ctx))
	}
	b.closedAt = time.Now()
}

// probe is the breaker's probe: the answer must also come in time. A second try follows a
// slow first one, which may have had to connect.
func (s *Store) probe(ctx context.Context) *Error {
	for range 2 {
		start := time.Now()
		if err := s.driver.Probe(ctx); err != nil {
			e := s.fail(err)
			if e.Class == s.slow.Class {
				s.measureInBackground(ctx) // it may answer after the timeout
			}
			return e
		}
		took := time.Since(start)
		s.distance.observe(took, time.Now())
		if took <= s.config.Timeout {
			return nil
		}
	}
	return s.slow
}
