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

// interruption is the error of a command that a signal has ended.
type interruption struct{ Signal os.Signal }

func (e interruption) Error() string { return fmt.Sprintf("stopped by signal: %v", e.Signal) }

// Interrupted is the error of a command that a signal has ended.
func Interrupted(by os.Signal) error { return interruption{by} }

// code is that of a shell for a process that the signal has ended. On systems whose
// signals have no number there is only the interrupt.
func (e interruption) code() int {
	if s, ok := e.Signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return ExitInterrupted
}

// SignalHooks are called on signals. The zero value only lets them end the command.
type SignalHooks struct {
	OnStop   func(os.Signal) // the first SIGINT or SIGTERM
	OnHangup func()          // every SIGHUP; nil leaves it to end the process
	Grace    time.Duration   // for the command to end after OnStop; 0 means no limit
}

// Signalled runs f. The first SIGINT or SIGTERM cancels f's context; a second one, or
// the end of the grace period, makes Signalled return without waiting for f.
func Signalled(ctx context.Context, h SignalHooks, f func(context.Context) error) error {
	signals := make(chan os.Signal, 4) // a burst of them loses none that matters
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if h.OnHangup != nil {
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// f may go on after Signalled has returned: a read from a pipe cannot be
	// interrupted, and the process is about to end anyway.
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	var first os.Signal
	var graceOver <-chan time.Time
	for {
		select {
		case err := <-done:
			// f may also have finished, or failed by itself, despite the signal: then
			// that is the result.
			if first != nil && errors.Is(err, context.Canceled) {
				return interruption{first}
			}
			return err
		case <-graceOver:
			return interruption{first}
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP: // subscribed to only with a hook
				h.OnHangup()
				continue
			case first != nil:
				return interruption{s}
			}
			first = s
			if h.OnStop != nil { // before cancel, so that its log line is the first
				h.OnStop(s)
			}
			if h.Grace > 0 {
				graceOver = time.After(h.Grace)
			}
			cancel()
		}
	}
}
