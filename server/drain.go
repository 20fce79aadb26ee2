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
// close after DrainDelay, requests in flight finish within DrainTimeout. It
// returns nil after a clean drain, else an error that tells how many connections
// had to be cut or which listener failed. It leaves no goroutine behind but for
// fasthttp's own: one that ends within a second, and one that keeps the Date
// header. Serve calls Listen if the caller did not.
func (s *Server) Serve(ctx context.Context) error {
	if s.Addrs() == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	watching, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	failed := make(chan error, len(s.traffic)+1)
	for _, t := range s.traffic {
		all.Go(func() { failed <- t.http.Serve(t.ln) })
		all.Go(func() { t.conns.watch(watching) })
	}
	if s.admin != nil {
		all.Go(func() { failed <- s.admin.Serve(s.adminLn) })
	}
	s.refill() // gives the budgets of the first second
	all.Go(func() { s.watch(watching) })

	s.state.Store(stateServing)
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

func (s *Server) drain() error {
	s.state.Store(stateDraining)
	for _, t := range s.traffic {
		t.draining.Store(true)
	}
	s.log.Info("draining", slog.Duration("delay", s.config.DrainDelay), slog.Duration("timeout", s.config.DrainTimeout))
	time.Sleep(s.config.DrainDelay)

	ctx, cancel := context.WithTimeout(context.Background(), s.config.DrainTimeout)
	defer cancel()
	var all sync.WaitGroup
	cut := make([]int, len(s.traffic))
	for i, t := range s.traffic {
		all.Go(func() { cut[i] = t.shutdown(ctx) })
	}
	all.Wait()
	if s.admin != nil {
		s.shutdownAdmin()
	}
	total := 0
	for _, n := range cut {
		total += n
	}
	if total > 0 {
		return fmt.Errorf("fastlimit/server: %d connections were cut after a drain of %v: a longer DrainTimeout gives them time", total, s.config.DrainTimeout)
	}
	s.log.Info("drained")
	return nil
}

// shutdown stops one listener and returns the number of connections that had to
// be cut.
func (t *traffic) shutdown(ctx context.Context) (cut int) {
	// fasthttp closes only listeners that its Serve has seen already.
	t.ln.Close()
	if t.http.ShutdownWithContext(ctx) == nil {
		return 0
	}
	cut = t.conns.cut()
	ctx, cancel := context.WithTimeout(context.Background(), cutGrace)
	defer cancel()
	_ = t.http.ShutdownWithContext(ctx)
	return cut
}

func (s *Server) shutdownAdmin() {
	ctx, cancel := context.WithTimeout(context.Background(), cutGrace)
	defer cancel()
	if err := s.admin.Shutdown(ctx); err != nil && !errors.Is(err, http.ErrServerClosed) {
		_ = s.admin.Close() // a profile in progress
	}
}
