package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// What a server carries out when it wakes up again is too late: a take changes
// nothing, neither does a refund. Without patience it is charged.
func TestFrozenServerChargesNothing(t *testing.T) {
	t.Parallel()
	for _, a := range trial.Algorithms {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			shape, err := trial.ShapeOf(a, 10, bucket.MaxPeriod, 10)
			if a == bucket.LeakyBucket {
				shape, err = trial.ShapeOf(a, 1, time.Hour, 10)
			}
			if err != nil {
				t.Fatal(err)
			}
			testFrozenServer(t, shape)
		})
	}
}

func testFrozenServer(t *testing.T, shape bucket.Shape) {
	t.Helper()
	server := redistest.Start(t)
	s := mustOpen(t, patient(server.Addr)) // connections wait for 10 s
	take := bucket.Op{Algorithm: shape.Algorithm(), Kind: bucket.Take, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 3}
	if _, err := do(s, take); err != nil {
		t.Fatal(err)
	}
	take.Patience = 50 * time.Millisecond
	back := take
	back.Kind = bucket.Refund
	patient := take
	patient.Patience, patient.Key = 0, "b"
	type outcome struct {
		key string
		err error
	}
	outcomes := make(chan outcome, 3)
	ops := []*bucket.Op{&take, &back, &patient}
	server.Stop()
	for _, op := range ops {
		op.Done = func(op *bucket.Op, _ bucket.Reply, err error) { outcomes <- outcome{op.Key, err} }
		if err := s.Submit(op); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(150 * time.Millisecond)
	server.Continue()
	for range ops {
		if o := <-outcomes; (o.key == "a") != errors.Is(o.err, bucket.ErrLate) {
			t.Errorf("%s: %v", o.key, o.err)
		}
	}
	peek := bucket.Op{Algorithm: shape.Algorithm(), Kind: bucket.Peek, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 10}
	if r, err := do(s, peek); err != nil || r.Granted != 7 {
		t.Errorf("%+v, %v: want 3 units charged, as before", r, err)
	}
	peek.Key = "b"
	if r, err := do(s, peek); err != nil || r.Granted != 7 {
		t.Errorf("%+v, %v: want what has no patience to be charged", r, err)
	}
	if n := s.Stats().Errors["late"]; n != 2 {
		t.Errorf("%d operations late, want 2", n)
	}
}

// The clock is asked for when it is not known, and not while answers tell it.
func TestClockIsAskedFor(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, patient(redistest.Start(t).Addr))
	shape := mustShape(t, 10, time.Second, 1000)
	op := bucket.Op{Kind: bucket.Take, Key: "a", Shape: shape, Cost: 1, Count: 1, Patience: time.Minute}
	run := func() {
		for range 20 {
			if _, err := do(s, op); err != nil {
				t.Fatal(err)
			}
		}
	}
	run() // on connections of their own
	before := s.Stats()
	run()
	if st := s.Stats(); st.Commands-before.Commands != 20 {
		t.Errorf("%d commands for 20 takes of a server that was just heard of", st.Commands-before.Commands)
	}
	s.driver.clocks.Forget()
	run()
	if st := s.Stats(); st.Commands-before.Commands != 41 {
		t.Errorf("%d commands for 40 takes and one look at the clock", st.Commands-before.Commands)
	}
}
