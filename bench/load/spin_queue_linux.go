package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// batch fills the queue of the server while it is halted, and lets it answer all.
func (s *spinner) batch(ctx context.Context) error {
	if err := s.Halt(true); err != nil {
		return err
	}
	for range s.Conns {
		s.sendNow(s.take())
	}
	err := s.until(ctx, "sent", func() bool {
		return !slices.ContainsFunc(s.conns, func(c spinConn) bool { return c.state == spinConnecting })
	})
	if err := errors.Join(err, s.Halt(false)); err != nil {
		return err
	}
	if err := s.until(ctx, "answered", func() bool { return s.held == s.Conns }); err != nil {
		return err
	}
	if s.out.Failed > maxFailures {
		return fmt.Errorf("%d requests failed: %s", s.out.Failed, s.out.Failure)
	}
	return nil
}

// until looks for what comes until all requests of a batch are done.
func (s *spinner) until(ctx context.Context, what string, done func() bool) error {
	for end := s.now() + int64(patience); !done(); {
		if err := s.poll(ctx); err != nil {
			return err
		}
		if s.now() > end {
			return fmt.Errorf("%d requests at once: not all are %s within %v", s.Conns, what, patience)
		}
	}
	return nil
}
