package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	// tripAfter consecutive bad batches mean that Redis is away, for good or
	// for long. Two workers whose connections break at once are not enough.
	tripAfter = 5

	// Or half of at least tripRequests batches within tripWindow: it answers
	// now and then, too late to be of use.
	tripRequests = 20
	tripWindow   = time.Second
)

// errSlow is how a batch that was answered late counts.
var errSlow = &Error{Class: Timeout, Err: errors.New("answers are slow")}

// breaker keeps operations from a Redis that does not answer. Operations
// never probe: a goroutine of the breaker's own does, one attempt at a time, so
// nobody waits for one and recovery needs no traffic.
type breaker struct {
	cb    *gobreaker.TwoStepCircuitBreaker[struct{}]
	away  atomic.Bool   // not closed
	wake  chan struct{} // capacity 1: the breaker has opened
	last  atomic.Pointer[Error]
	since atomic.Int64 // UnixNano of the trip

	pause time.Duration // before the next attempt; the prober's own
	back  time.Time     // when it closed last; the prober's own

	probe    func(context.Context) error
	min, max time.Duration
	log      *slog.Logger
	target   string
	trips    *atomic.Uint64
}

func (b *breaker) init() {
	b.wake = make(chan struct{}, 1)
	b.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Interval:     tripWindow,
		BucketPeriod: tripWindow / 10,
		Timeout:      b.min / 2, // below every pause of the prober
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= tripAfter || c.Requests >= tripRequests && 2*c.TotalFailures >= c.Requests
		},
		OnStateChange: func(_ string, from, to gobreaker.State) { b.changed(from, to) },
	})
}

// changed runs under the lock of gobreaker and must not call it.
func (b *breaker) changed(from, to gobreaker.State) {
	b.away.Store(to != gobreaker.StateClosed)
	switch {
	case from == gobreaker.StateClosed:
		b.trips.Add(1)
		b.since.Store(time.Now().UnixNano())
		err := b.last.Load()
		b.log.Warn("redis is away, deciding without it", "redis", b.target, "class", err.Class.String(), "error", err.Err)
		select {
		case b.wake <- struct{}{}:
		default:
		}
	case to == gobreaker.StateClosed:
		b.log.Info("redis is back", "redis", b.target, "after", time.Since(time.Unix(0, b.since.Load())).Round(time.Millisecond))
	}
}

// allow asks for leave to send a batch. report must be called once if ok.
func (b *breaker) allow() (report func(*Error), ok bool) {
	if b.away.Load() {
		return nil, false
	}
	done, err := b.cb.Allow()
	if err != nil {
		return nil, false
	}
	return func(e *Error) {
		if e == nil {
			done(nil)
			return
		}
		b.last.Store(e)
		done(e)
	}, true
}

// open opens the breaker for what was found out without it, so that the first
// requests need not.
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

// recover probes until the breaker is closed. A Redis that fails again soon
// after it came back finds the pause as long as it was left.
func (b *breaker) recover(ctx context.Context) {
	if time.Since(b.back) > 10*b.max {
		b.pause = b.min
	}
	for b.away.Load() {
		if b.last.Load().Class.misconfigured() {
			b.pause = b.max
		}
		jitter := time.Duration(rand.Int64N(int64(b.pause/4) + 1))
		select {
		case <-ctx.Done():
			return
		case <-time.After(b.pause*3/4 + jitter):
		}
		b.pause = min(2*b.pause, b.max)
		done, err := b.cb.Allow()
		if err != nil {
			continue
		}
		err = b.probe(ctx)
		if e := (*Error)(nil); errors.As(err, &e) {
			b.last.Store(e)
		}
		done(err)
	}
	b.back = time.Now()
}
