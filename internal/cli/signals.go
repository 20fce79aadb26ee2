package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// interruption tells that a signal ended the command.
type interruption struct{ Signal os.Signal }

func (e interruption) Error() string { return fmt.Sprintf("stopped by signal: %v", e.Signal) }

func (e interruption) code() int {
	if s, ok := e.Signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return ExitInterrupted
}

// SignalHooks say what signals do beside ending the command. The zero value is
// nothing.
type SignalHooks struct {
	OnStop   func(os.Signal) // the first SIGINT or SIGTERM
	OnHangup func()          // every SIGHUP; nil leaves it to end the process
	Grace    time.Duration   // for the command to end after OnStop; 0 is no bound
}

// Signalled runs f. At the first SIGINT or SIGTERM it ends the context; the
// second one, or the end of the grace, ends the wait for f.
func Signalled(ctx context.Context, h SignalHooks, f func(context.Context) error) error {
	signals := make(chan os.Signal, 4) // a burst of them loses none that matters
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if h.OnHangup != nil {
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
				return interruption{first}
			}
			return err
		case <-graceOver:
			return interruption{first}
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
				h.OnHangup()
				continue
			case first != nil:
				return interruption{s}
			}
			first = s
			if h.OnStop != nil {
				h.OnStop(s)
			}
			if h.Grace > 0 {
				graceOver = time.After(h.Grace)
			}
			cancel()
		}
	}
}
