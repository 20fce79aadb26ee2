package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// submitUntilBusy fills the queue of a store whose server is frozen and counts
// the calls of Done. Its only worker waits for an answer by then: one that still
// collects its batch would empty the queue again.
func submitUntilBusy(t *testing.T, s *Store, called *atomic.Int64) (accepted int64) {
	t.Helper()
	shape := mustShape(t, 10, time.Second, 5)
	sent := s.Stats().Commands
	for accepted < 10_000 {
		op := &bucket.Op{Kind: bucket.Take, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 1}
		op.Done = func(*bucket.Op, bucket.Reply, error) { called.Add(1) }
		err := s.Submit(op)
		if errors.Is(err, bucket.ErrBusy) {
			return accepted
		}
		if err != nil {
			t.Fatal(err)
		}
		if accepted++; accepted == 1 {
			redistest.Eventually(t, "the worker waits for an answer", func() bool { return s.Stats().Commands > sent })
		}
	}
	t.Fatal("the queue is never full")
	return 0
}

func frozen(t *testing.T, timeout time.Duration) (*redistest.Server, *Store) {
	t.Helper()
	server := redistest.Start(t)
	c := patient(server.Addr)
	c.Workers, c.Queue, c.Timeout = 1, 10, timeout
	s := mustOpen(t, c)
	server.Stop()
	return server, s
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	server, s := frozen(t, time.Minute)
	var called atomic.Int64
	accepted := submitUntilBusy(t, s, &called)
	if st := s.Stats(); accepted != 1+10 || st.Busy != 1 || st.Queue != 10 || st.QueueCap != 10 {
		t.Errorf("%d accepted, %d refused, %d of %d queued", accepted, st.Busy, st.Queue, st.QueueCap)
	}
	server.Continue()
	redistest.Eventually(t, "all are done", func() bool { return called.Load() == accepted })
	if st := s.Stats(); st.Takes != uint64(accepted) {
		t.Errorf("Takes = %d, want %d", st.Takes, accepted)
	}
}

// Close fails what is queued when its context ends, and still ends.
func TestCloseGivesUp(t *testing.T) {
	t.Parallel()
	_, s := frozen(t, 500*time.Millisecond)
	var called atomic.Int64
	accepted := submitUntilBusy(t, s, &called)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v, want deadline exceeded", err)
	}
	if called.Load() != accepted {
		t.Errorf("Done called %d times for %d operations", called.Load(), accepted)
	}
}

// An unportable shape is refused for itself; the rest of the batch goes on.
func TestUnportableShape(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, patient(redistest.Start(t).Addr))
	big := mustShape(t, 1, 24*time.Hour, 10_000_000)
	if _, err := do(s, bucket.Op{Kind: bucket.Take, Key: "a", Shape: big, Cost: big.Unit(), Count: 1}); Classify(err) != Other {
		t.Errorf("%v, want an error about the limit", err)
	}
	if st := s.Stats(); st.State != "closed" || st.Errors["other"] != 1 {
		t.Errorf("state %s, errors %v", st.State, st.Errors)
	}
}

func TestAlarmIsRare(t *testing.T) {
	t.Parallel()
	l := new(logs)
	a := &alarm{log: slog.New(slog.NewTextHandler(l, nil)), target: "x"}
	for range 1000 {
		a.raise(&Error{Class: NoPerm, Err: errAnswer}, "k")
		a.raise(&Error{Class: Corrupt, Err: errAnswer}, "k")
	}
	if n := l.count("level=ERROR"); n != 2 {
		t.Errorf("%d lines, want one per class:\n%s", n, l)
	}
	a.last[NoPerm].Add(-2 * int64(alarmEvery))
	a.raise(&Error{Class: NoPerm, Err: errAnswer}, "k")
	if n := l.count("class=noperm"); n != 2 {
		t.Errorf("%d lines after a minute, want a second:\n%s", n, l)
	}
}

func TestStatsCount(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, patient(redistest.Start(t).Addr))
	before := s.Stats()
	shape := mustShape(t, 10, time.Second, 5)
	for kind := range bucket.Kind(kinds) {
		for range kind + 1 {
			if _, err := do(s, bucket.Op{Kind: kind, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A batch is counted after its operations are done.
	redistest.Eventually(t, "the last batch to be counted", func() bool { return s.Stats().Pipelines == 10 })
	st := s.Stats()
	if st.Takes != 1 || st.Peeks != 2 || st.Refunds != 3 || st.Resets != 4 {
		t.Errorf("operations %d %d %d %d, want 1 2 3 4", st.Takes, st.Peeks, st.Refunds, st.Resets)
	}
	var trips uint64
	for _, n := range st.RoundTrips {
		trips += n
	}
	if st.Pipelines != 10 || trips != 10 || st.Commands-before.Commands != 10 || st.RoundTripSum <= 0 {
		t.Errorf("%d pipelines, %d timed, %d commands, %v", st.Pipelines, trips, st.Commands-before.Commands, st.RoundTripSum)
	}
	if len(st.Errors) != len(Classes()) || st.Pool.Total == 0 || st.State != "closed" {
		t.Errorf("%+v", st)
	}
	if off := st.ClockOffset; off > time.Minute || off < -time.Minute {
		t.Errorf("ClockOffset = %v on the same machine", off)
	}
}
