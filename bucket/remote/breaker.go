package remote

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
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

// jitter is the random part of a pause, in either direction: pauses are between
// 3/4 of what Config says and all of it, so that nodes which lost a store
// together do not return to it together.
const jitter = 1. / 7

// breaker keeps operations away from a store that does not answer. It probes in
// a goroutine of its own, one attempt at a time.
type breaker struct {
	config *Config
	probe  func(context.Context) *Error

	cb       *gobreaker.TwoStepCircuitBreaker[struct{}]
	away     atomic.Bool   // not closed
	wake     chan struct{} // capacity 1: the breaker has opened
	last     atomic.Pointer[Error]
	openedAt atomic.Int64 // UnixNano of the trip
	trips    atomic.Uint64

	pauses   backoff.ExponentialBackOff // between probes; the prober's own
	closedAt time.Time                  // when it closed last; the prober's own
}

func (b *breaker) init(c *Config, probe func(context.Context) *Error) {
	b.config, b.probe = c, probe
	b.wake = make(chan struct{}, 1)
	b.pauses = backoff.ExponentialBackOff{RandomizationFactor: jitter, Multiplier: 2, MaxInterval: middle(c.RetryMax)}
	b.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Interval:     tripWindow,
		BucketPeriod: tripWindow / 10,
		Timeout:      c.RetryMin / 2, // below every pause of the prober
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= tripAfter || c.Requests >= tripRequests && 2*c.TotalFailures >= c.Requests
		},
		OnStateChange: func(_ string, from, to gobreaker.State) { b.changed(from, to) },
	})
}

// changed runs while gobreaker holds its lock, so it must not call cb.
func (b *breaker) changed(from, to gobreaker.State) {
	b.away.Store(to != gobreaker.StateClosed)
	switch {
	case from == gobreaker.StateClosed:
		b.trips.Add(1)
		b.openedAt.Store(time.Now().UnixNano())
		err := b.last.Load()
		b.config.Logger.Warn(b.config.Name+" is away, deciding without it", b.config.Name, b.config.Target, "class", err.Class.Name, "error", err.Err)
		select {
		case b.wake <- struct{}{}:
		default:
		}
	case to == gobreaker.StateClosed:
		b.config.Logger.Info(b.config.Name+" is back", b.config.Name, b.config.Target,
			"after", time.Since(time.Unix(0, b.openedAt.Load())).Round(time.Millisecond))
	}
}

// allow reports whether a batch, or the probe while the breaker is open, may be
// sent. If so, report must be called once. Workers check away first: in the
// half-open state gobreaker admits one request, which is the prober's.
func (b *breaker) allow() (report func(*Error), ok bool) {
	done, err := b.cb.Allow()
	return func(e *Error) {
		if e == nil {
			done(nil)
			return
		}
		b.last.Store(e)
		done(e)
	}, err == nil
}

// open trips the breaker for an error that was found outside of it.
func (b *breaker) open(e *Error) {
	for range tripAfter {
		if report, ok := b.allow(); ok {
			report(e)
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

// resetPauses makes the next pause at most d; those after it double.
func (b *breaker) resetPauses(d time.Duration) {
	b.pauses.InitialInterval = middle(d)
	b.pauses.Reset()
}

// middle is the mean of a random pause of at most d, which is what package
// backoff wants to be told.
func middle(d time.Duration) time.Duration { return time.Duration(float64(d) / (1 + jitter)) }

// recover probes until the breaker is closed. If a store fails again soon after
// it came back, the pauses go on from where they were.
func (b *breaker) recover(ctx context.Context) {
	if time.Since(b.closedAt) > 10*b.config.RetryMax {
		b.resetPauses(b.config.RetryMin)
	}
	for b.away.Load() {
		if b.last.Load().Class.Cause == Misconfigured {
			b.resetPauses(b.config.RetryMax)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(b.pauses.NextBackOff()):
		}
		if report, ok := b.allow(); ok {
			report(b.probe(ctx))
		}
	}
	b.closedAt = time.Now()
}

// probe is how the breaker probes: the answer must also come in time. A second
// try follows a slow first one, which may have had to connect.
func (s *Store) probe(ctx context.Context) *Error {
	for range 2 {
		start := time.Now()
		if err := s.driver.Probe(ctx); err != nil {
			e := s.fail(err)
			if e.Class == s.slow.Class {
				s.measureInBackground(ctx) // it may answer later than anybody waits
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
