// Package lifecycle runs a server from its first request to the end of its drain:
// the [Front]s, one ticker, and the order in which everything stops. It knows
// neither protocols nor rules.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Front is one way for requests to come in, with its own listeners and protocol. A new one is a package with
// such a type, and a line in server.New.
type Front interface {
	// Listen binds the addresses. Its error names each that failed, and the fix.
	Listen() error
	// Close undoes Listen, also in part, if Serve is not going to be called.
	Close()

	// Begin takes requests from now on. It calls fail if it cannot continue: then the whole server drains.
	Begin(fail func(error))

	// Serve runs until ctx ends, which is after Drain has returned. It leaves none of Begin's goroutines
	// behind.
	Serve(ctx context.Context)

	// Drain keeps serving for the delay, then takes nothing new, lets requests in flight finish within the
	// timeout, and cuts the rest. It returns how many connections it has cut. It may be called before Serve.
	Drain(delay, timeout time.Duration) (cut int)
}

// Runner runs the fronts of a server. Set its fields, then call Listen and Run, once
// each. The other methods are safe for concurrent use.
type Runner struct {
	Log *slog.Logger

	// Drain sets the drain: delay is the time between not being ready and the listeners closing, timeout is
	// for requests in flight. It is called when the drain begins.
	Drain func() (delay, timeout time.Duration)

	Fronts []Front // drain at the same time
	Last   []Front // begin and drain after Fronts: operators watch through them

	// Tick is called once a second, then EndSecond, which is also called before the first second and after
	// the last: all by one goroutine at a time.
	Tick, EndSecond func()

	phase atomic.Uint32 // one of the constants below; only Run changes it
}

const (
	starting uint32 = iota
	serving
	draining
)

// Ready is nil while the server serves, else it says what the server is doing.
func (r *Runner) Ready() error {
	return [...]error{starting: errors.New("starting"), serving: nil, draining: errors.New("draining")}[r.phase.Load()]
}

// Listen binds all fronts, or none, those for operators first: clients may come to the others at once. Its
// error joins all failures.
func (r *Runner) Listen() error {
	var errs []error
	for _, f := range slices.Concat(r.Last, r.Fronts) {
		errs = append(errs, f.Listen())
	}
	err := errors.Join(errs...)
	if err != nil {
		r.Close()
	}
	return err
}

// Close undoes Listen, if Run is not going to be called.
func (r *Runner) Close() {
	for _, f := range slices.Concat(r.Fronts, r.Last) {
		f.Close()
	}
}

// Run serves until ctx ends or a front fails, then drains. It returns nil after a clean drain, else an error
// that says how many connections were cut or which listener failed. It leaves no goroutine behind.
func (r *Runner) Run(ctx context.Context) error {
	taking, fail := context.WithCancelCause(ctx) // until ctx ends or a front fails
	defer fail(nil)
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // until everything has drained
	var all sync.WaitGroup
	begin := func(fronts []Front) {
		for _, f := range fronts {
			f.Begin(fail)
			all.Go(func() { f.Serve(running) })
		}
	}
	begin(r.Fronts)
	r.phase.Store(serving)
	r.EndSecond() // sets the budgets of the first second
	begin(r.Last) // the first answer of /readyz is not that it starts
	all.Go(func() { r.tick(running) })

	<-taking.Done()
	var broken error
	if err := context.Cause(taking); !errors.Is(err, context.Cause(ctx)) {
		broken = fmt.Errorf("fastlimit/server: a listener stopped: %w", err)
	}
	r.phase.Store(draining)
	err := r.drain()
	stop()
	all.Wait()
	r.EndSecond() // the last second of the log
	return errors.Join(broken, err)
}

// tick does not make up for missed seconds, for example on a machine that slept: what it calls reads the
// clock itself.
func (r *Runner) tick(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.Tick()
			r.EndSecond()
		}
	}
}

// drain drains everything. The fronts for operators come last, so that /readyz and /metrics show the drain
// until its end.
func (r *Runner) drain() error {
	delay, timeout := r.Drain()
	r.Log.Info("draining", slog.Duration("delay", delay), slog.Duration("timeout", timeout))
	cut := drain(r.Fronts, delay, timeout) + drain(r.Last, 0, 0)
	if cut > 0 {
		return fmt.Errorf("fastlimit/server: %d connections were cut after a drain of %v: raise drain.timeout to give them more time", cut, timeout)
	}
	r.Log.Info("drained")
	return nil
}

// drain drains fronts at the same time, and returns how many connections were cut.
func drain(fronts []Front, delay, timeout time.Duration) int {
	var all sync.WaitGroup
	var cut atomic.Int64
	for _, f := range fronts {
		all.Go(func() { cut.Add(int64(f.Drain(delay, timeout))) })
	}
	all.Wait()
	return int(cut.Load())
}
