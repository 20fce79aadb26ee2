package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// cutGrace is what connections get to notice that they were cut.
const cutGrace = time.Second

// Serve serves until ctx ends, then drains: /readyz turns 503, the listeners
// close after Drain.Delay, requests in flight finish within Drain.Timeout. It
// returns nil after a clean drain, else an error that tells how many connections
// had to be cut or which listener failed. It leaves no goroutine behind but the
// one with which fasthttp keeps the Date header. Serve calls Listen if the caller did not.
func (s *Server) Serve(ctx context.Context) error {
	if s.Addrs() == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	// Whoever asks from here on is queued at the latest: it is served.
	s.state.Store(stateServing)
	watching, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	failed := make(chan error, len(s.traffic)+1)
	for _, t := range s.traffic {
		all.Go(func() {
			defer close(t.accepted)
			if err := t.accept(); err != nil {
				failed <- err
			}
		})
	}
	all.Go(func() { s.conns.watch(watching) })
	if s.admin != nil {
		all.Go(func() { failed <- s.admin.Serve(s.adminLn) })
	}
	s.refill() // gives the budgets of the first second
	all.Go(func() { s.watch(watching) })

	var broken error
	select {
	case <-ctx.Done():
	case err := <-failed:
		broken = fmt.Errorf("fastlimit/server: a listener stopped: %w", err)
	}
	err := s.drain()
	stopWatch()
	all.Wait()
	s.refill() // the last second of the log
	return errors.Join(broken, err)
}

// drain ends all connections so that no request is lost that has reached one of
// them: every answer is the last one, no connection is cut while its client may
// be about to send, and who is still idle then is asked once more whether
// something has arrived; see [conn.receive].
func (s *Server) drain() error {
	s.state.Store(stateDraining)
	s.log.Info("draining", slog.Duration("delay", s.config.Drain.Delay), slog.Duration("timeout", s.config.Drain.Timeout))
	s.conns.lastAnswers()
	time.Sleep(max(0, s.config.Drain.Delay-drainQuiet))
	s.conns.dismissQuiet(false)
	noted := time.Now()
	time.Sleep(min(s.config.Drain.Delay, drainQuiet))

	end := time.Now().Add(s.config.Drain.Timeout)
	s.stopAccepting()
	for !s.conns.emptyWithin(min(time.Until(noted.Add(drainQuiet)), time.Until(end))) && time.Until(end) > 0 {
		s.conns.dismissQuiet(false)
		noted = time.Now()
	}
	cut := 0
	if s.conns.dismissQuiet(true) > 0 && !s.conns.emptyWithin(cutGrace) {
		cut = s.conns.cut()
		s.conns.emptyWithin(cutGrace)
	}
	if s.admin != nil {
		s.shutdownAdmin()
	}
	if cut > 0 {
		return fmt.Errorf("fastlimit/server: %d connections were cut after a drain of %v: raise drain.timeout to give them more time", cut, s.config.Drain.Timeout)
	}
	s.log.Info("drained")
	return nil
}

// drainQuiet is how long a connection must have been idle for the drain to end
// it: a client that has just got an answer, or has just connected, is about to
// send.
const drainQuiet = 500 * time.Millisecond

// stopAccepting closes the listeners once their queues are empty.
func (s *Server) stopAccepting() {
	late := time.Now().Add(settleMost)
	for _, t := range s.traffic {
		t.ln.settle()
	}
	for _, t := range s.traffic {
		select {
		case <-t.accepted:
		case <-time.After(time.Until(late)):
		}
		_ = t.ln.Close() // it takes no more either way
	}
}

func (s *Server) shutdownAdmin() {
	ctx, cancel := context.WithTimeout(context.Background(), cutGrace)
	defer cancel()
	if err := s.admin.Shutdown(ctx); err != nil && !errors.Is(err, http.ErrServerClosed) {
		_ = s.admin.Close() // a profile in progress
	}
}
