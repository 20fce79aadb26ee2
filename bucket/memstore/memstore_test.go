package memstore_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/bucket/storetest"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.ExitCode(m.Run())) }

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) bucket.Store {
		s := memstore.New(memstore.Config{Now: clock.Now})
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		return s
	})
}

// Operations of 64 callers at once are carried out one after another.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	clock := trial.NewTick()
	s := memstore.New(memstore.Config{Now: clock.Now})
	trial.CloseLater(t, s)
	l := trial.Linear{Clock: clock, Nodes: []bucket.Store{s}, Callers: 64, Each: 4, Keys: 10}
	for _, a := range trial.Algorithms {
		l.Shapes = append(l.Shapes, trial.MustShape(t, a, 10, time.Second, 6))
	}
	l.Check(t)
}

// Under load each operation has one outcome, and what is granted is charged once.
func TestLoad(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Config{})
	trial.CloseLater(t, s)
	load := trial.StartLoad(t, s)
	load.Progress("works")
	load.End()
	load.Audit(func(key string, shape bucket.Shape) uint64 {
		st := s.State(key)
		return (st.Level+shape.Unit()-1)/shape.Unit() + st.Previous + uint64(st.Log.Len())
	}, false)
}

// With the clock of the machine: what is dated, what is full, and what is forgotten.
func TestOwnClock(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Config{Queue: 1})
	shape, err := bucket.NewShape(1, time.Hour, 2)
	if err != nil {
		t.Fatal(err)
	}
	held, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 4)
	take := func(key string, at time.Time, patience time.Duration, hold bool) *bucket.Op {
		return &bucket.Op{Kind: bucket.Take, Key: key, Shape: shape, Cost: shape.Cost(1), Count: 1, At: at, Patience: patience, Done: func(_ *bucket.Op, _ bucket.Reply, err error) {
			if hold {
				close(held)
				<-release
			}
			done <- err
		}}
	}
	if err := s.Submit(take("a", time.Time{}, 0, true)); err != nil {
		t.Fatal(err)
	}
	<-held
	if err := s.Submit(take("late", time.Now().Add(-time.Hour), time.Minute, false)); err != nil {
		t.Fatal(err)
	}
	if err := s.Submit(take("b", time.Time{}, 0, false)); !errors.Is(err, bucket.ErrBusy) {
		t.Errorf("a full queue: %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("a take: %v", err)
	}
	if err := <-done; !errors.Is(err, bucket.ErrLate) {
		t.Errorf("a take of an hour ago: %v", err)
	}
	if s.State("a") == s.State("late") {
		t.Error("the take was not stored")
	}
	s.Forget()
	if s.State("a") != s.State("late") {
		t.Error("a store that has forgotten remembers")
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Submit(take("c", time.Time{}, 0, false)); !errors.Is(err, bucket.ErrAway) {
		t.Errorf("a closed store: %v", err)
	}
}
