package redisstore

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// A reading is a lower bound of the server's time, whatever the delays and
// however the clocks drift; and with a short round trip it is close.
func TestReadingIsALowerBound(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 9))
	start := time.Now()
	for range 2000 {
		drift := (rng.Float64()*2 - 1) * 0.9 / (1 << driftShift)
		server := func(at time.Time) int64 { // µs, cut off
			return 1_763_596_800_000_000 + int64(float64(at.Sub(start))*(1+drift))/1000
		}
		var c clocks
		at := start
		for range 50 {
			asked := at.Add(time.Duration(rng.Int64N(1e9)))
			there := asked.Add(time.Duration(rng.Int64N(1 << rng.IntN(30))))
			got := there.Add(time.Duration(rng.Int64N(1 << rng.IntN(30))))
			c.observe("", reading{micros: server(there), asked: asked, got: got})
			at = got
			r := c.get("")
			for range 5 {
				x := got.Add(time.Duration(rng.Int64N(4e9) - 2e9))
				if low := r.lower(x); low > server(x) {
					t.Fatalf("%d at %v, the server says %d", low, x.Sub(start), server(x))
				}
			}
			if low := r.lower(got); low < server(got)-got.Sub(asked).Microseconds()-got.Sub(asked).Microseconds()>>driftShift-2 {
				t.Fatalf("%d µs off after a round trip of %v", server(got)-low, got.Sub(asked))
			}
		}
	}
}

// A reading that contradicts the one before is believed: the clock has stepped.
func TestReadingAfterAStep(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for _, step := range []int64{-3_600_000_000, -5_000, 5_000, 3_600_000_000} {
		var c clocks
		c.observe("", reading{micros: 1e15, asked: start, got: start.Add(time.Millisecond)})
		later := start.Add(time.Second)
		c.observe("", reading{micros: 1e15 + 1e6 + step, asked: later, got: later.Add(time.Millisecond)})
		r := c.get("")
		if got := r.lower(later.Add(time.Millisecond)); got != 1e15+1e6+step {
			t.Errorf("a step of %d µs: %d", step, got-1e15)
		}
		c.forget()
		if r := c.get(""); r.usable(later, time.Second) {
			t.Error("a reading that was forgotten is used")
		}
	}
	r := reading{micros: 1, asked: start, got: start.Add(time.Millisecond)}
	for after, want := range map[time.Duration]bool{time.Millisecond: true, 300 * time.Millisecond: true, 330 * time.Millisecond: false} {
		if got := r.usable(start.Add(after), 5*time.Millisecond); got != want {
			t.Errorf("usable %v after: %v", after, got)
		}
	}
	if r.got = start.Add(3 * time.Millisecond); r.usable(r.got, 5*time.Millisecond) {
		t.Error("a reading of a round trip of 3 ms serves operations that have 5 ms")
	}
}

// A slow answer does not blunt what a fast one told, until that has aged.
func TestReadingStaysSharp(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for _, tt := range []struct {
		later time.Duration
		want  int64 // µs after the first
	}{{100 * time.Millisecond, 99_902}, {20 * time.Second, 19_999_000}} {
		var c clocks
		c.observe("", reading{micros: 1e15, asked: start, got: start})
		got := start.Add(tt.later)
		c.observe("", reading{micros: 1e15 + tt.later.Microseconds() - 1000, asked: got.Add(-2 * time.Millisecond), got: got})
		if r := c.get(""); r.lower(got)-1e15 != tt.want {
			t.Errorf("after %v: %d µs, want %d", tt.later, r.lower(got)-int64(1e15), tt.want)
		}
	}
}

// What a server carries out when it wakes up again is too late: a take changes
// nothing, neither does a refund. Without patience it is charged.
func TestFrozenServerChargesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, patient(server.Addr)) // connections wait for 10 s
	shape := mustShape(t, 1, time.Hour, 10)
	take := bucket.Op{Kind: bucket.Take, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 3}
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
	peek := bucket.Op{Kind: bucket.Peek, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 10}
	if r, err := do(s, peek); err != nil || r.Level > 3*shape.Unit() || r.Granted < 7 {
		t.Errorf("%+v, %v: want 3 units charged, as before", r, err)
	}
	peek.Key = "b"
	if r, err := do(s, peek); err != nil || r.Level <= 2*shape.Unit() {
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
	s.driver.clocks.forget()
	run()
	if st := s.Stats(); st.Commands-before.Commands != 41 {
		t.Errorf("%d commands for 40 takes and one look at the clock", st.Commands-before.Commands)
	}
}
