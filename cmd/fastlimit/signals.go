package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// interruptedError tells that a signal ended the command.
type interruptedError struct{ signal os.Signal }

func (e interruptedError) Error() string { return fmt.Sprintf("stopped by signal: %v", e.signal) }

func (e interruptedError) code() int {
	if s, ok := e.signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return exitInterrupted
}

// signalHooks say what signals do beside ending the command.
type signalHooks struct {
	onStop   func(os.Signal) // the first SIGINT or SIGTERM
	onHangup func()          // every SIGHUP; nil leaves it to end the process
	grace    time.Duration   // for the command to end after onStop; 0 is no bound
}

// signalled runs f. At the first SIGINT or SIGTERM it ends the context; the
// second one, or the end of the grace, ends the wait for f.
func signalled(ctx context.Context, h signalHooks, f func(context.Context) error) error {
	signals := make(chan os.Signal, 4) // a burst of them loses none that matters
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if h.onHangup != nil {
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// f is left behind if it does not end: it may hang in a read of a pipe,
	// which nothing can interrupt, and the process ends anyway.
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	var first os.Signal
	var graceOver <-chan time.Time
	for {
		select {
		case err := <-done:
			if first != nil && errors.Is(err, context.Canceled) {
				return interruptedError{first}
			}
			return err
		case <-graceOver:
			return interruptedError{first}
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
				h.onHangup()
				continue
			case first != nil:
				return interruptedError{s}
			}
			first = s
			if h.onStop != nil {
				h.onStop(s)
			}
			if h.grace > 0 {
				graceOver = time.After(h.grace)
			}
			cancel()
		}
	}
}
