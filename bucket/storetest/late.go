package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// outcome is what was passed to Done.
type outcome struct {
	reply bucket.Reply
	err   error
}

// stalled submits ops while another operation blocks the store, calls pass, unblocks the
// store and returns the outcomes.
func (s *suite) stalled(pass func(), ops ...bucket.Op) []outcome {
	s.t.Helper()
	busy, free := make(chan struct{}), make(chan struct{})
	blocker := take(shape(s.t, 10, time.Second, 2), "blocker", 1, 1)
	blocker.Done = func(*bucket.Op, bucket.Reply, error) { close(busy); <-free }
	if err := s.store.Submit(&blocker); err != nil {
		s.t.Fatal(err)
	}
	<-busy
	got := make([]outcome, len(ops))
	done := make(chan struct{})
	for i := range ops {
		op := &ops[i]
		op.Done = func(_ *bucket.Op, r bucket.Reply, err error) { got[i] = outcome{r, err}; done <- struct{}{} }
		if err := s.store.Submit(op); err != nil {
			s.t.Fatal(err)
		}
	}
	pass()
	close(free)
	for range ops {
		<-done
	}
	for i := range got {
		if got[i].err == nil {
			got[i].reply = s.timeless(got[i].reply)
		}
	}
	return got
}

// warm lets the store learn its clock from an answer, as any traffic does: redisstore
// dates operations by it.
func (s *suite) warm() { s.do(take(shape(s.t, 10, time.Second, 1000), "warm", 1, 1)) }

// A take or a refund that reaches its bucket after its patience has run out
// changes nothing.
func testLateTake(t *testing.T, s *suite) {
	s.warm()
	op := take(shape(t, 10, time.Second, 5), "a", 1, 2)
	s.do(op)
	op.Patience = 5 * time.Millisecond
	back := with(op, bucket.Refund)
	peek := with(op, bucket.Peek)
	for _, late := range s.stalled(func() { s.clock.Advance(6 * time.Millisecond) }, op, back, peek) {
		if !errors.Is(late.err, bucket.ErrLate) {
			t.Errorf("6 ms late of 5: %+v", late)
		}
	}
	plain := with(op, bucket.Peek)
	plain.Patience = 0
	s.want(plain, bucket.Reply{Granted: 2, Level: 2*u - 6000})
	got := s.stalled(func() { s.clock.Advance(4 * time.Millisecond) }, op)
	if want := (bucket.Reply{Granted: 2, Level: 4*u - 10_000}); got[0].err != nil || got[0].reply != want {
		t.Errorf("4 ms late of 5: %+v, want %+v", got[0], want)
	}
	// Without patience operations may be as late as they like.
	op.Patience = 0
	if got := s.stalled(func() { s.clock.Advance(time.Hour) }, op); got[0].err != nil || got[0].reply.Granted != 2 {
		t.Errorf("an hour late of no matter how many: %+v", got[0])
	}
}

// A floor raises a bucket to the part of it that has not leaked since, not to all of it.
func testLateFloor(t *testing.T, s *suite) {
	s.warm()
	for name, tt := range map[string]struct {
		late        time.Duration
		least, most uint64
	}{
		"at once": {0, 4 * u, 4 * u}, "some": {50 * time.Millisecond, 4*u - 50_100, 4*u - 50_000},
		"all": {300 * time.Millisecond, u, u}, "more": {time.Hour, u, u},
	} {
		op := take(shape(t, 10, time.Second, 9), name, 1, 1)
		op.Floor = 3 * u
		got := s.stalled(func() { s.clock.Advance(tt.late) }, op)
		if l := got[0].reply.Level; got[0].err != nil || l < tt.least || l > tt.most {
			t.Errorf("%s: %+v, want a level of %d to %d", name, got[0], tt.least, tt.most)
		}
	}
}

// A take refunds Back before it charges.
func testBack(t *testing.T, s *suite) {
	op := take(shape(t, 10, time.Second, 3), "a", 1, 3)
	s.want(op, bucket.Reply{Granted: 3, Level: 3 * u})
	op.Back = 2 * u
	s.want(op, bucket.Reply{Granted: 2, Level: 3 * u})
	op.Back = 9 * u
	s.want(op, bucket.Reply{Granted: 3, Level: 3 * u})
	op.Back, op.Count = u, 1
	peek := with(op, bucket.Peek)
	s.want(peek, bucket.Reply{Granted: 1, Level: 2 * u})
	op.Back = 0
	s.want(op, bucket.Reply{Level: 3 * u})
}

// After a refund floors are ignored until every level from before has leaked,
// which takes at most twice the limit. The floor of the refunding operation
// itself accounts for the refund and counts.
func testQuiet(t *testing.T, s *suite) {
	sh := shape(t, 10, time.Second, 3)
	op := take(sh, "a", 1, 3)
	s.want(op, bucket.Reply{Granted: 3, Level: 3 * u})
	own := take(sh, "a", 1, 1)
	own.Back, own.Floor = 2*u, 2*u
	s.want(own, bucket.Reply{Granted: 1, Level: 3 * u})
	s.want(with(own, bucket.Refund), bucket.Reply{Level: 2 * u}) // Cost
	high := take(sh, "a", 1, 1)
	high.Floor = 3 * u
	s.want(high, bucket.Reply{Granted: 1, Level: 3 * u}) // ignored: it fits
	s.clock.Advance(sh.MaxDrain() - time.Microsecond)
	s.want(with(high, bucket.Peek), bucket.Reply{Granted: 1})
	s.clock.Advance(time.Microsecond)
	s.warm()
	s.want(high, bucket.Reply{Level: 3 * u}) // counts again
	// A refund of nothing gives nothing back.
	none := with(take(sh, "b", 1, 1), bucket.Refund)
	s.want(none, bucket.Reply{})
	high.Key = "b"
	s.want(high, bucket.Reply{Level: 3 * u})
}

// A store remembers a reset: floors from before do not undo it.
func testResetIsKnown(t *testing.T, s *suite) {
	sh := shape(t, 10, time.Second, 3)
	for _, key := range []string{"full", "empty"} {
		op := take(sh, key, 1, 3)
		if key == "full" {
			s.do(op)
		}
		s.want(with(op, bucket.Reset), bucket.Reply{})
		op.Floor = 3 * u
		s.want(op, bucket.Reply{Granted: 3, Level: 3 * u})
		s.clock.Advance(sh.MaxDrain())
		s.warm()
		s.want(op, bucket.Reply{Level: 3 * u})
		// The clock steps back: floors are ignored for no longer than from now on.
		s.want(with(op, bucket.Reset), bucket.Reply{})
		s.clock.Step(-24 * time.Hour)
		op.Count = 1
		s.warm()
		s.want(op, bucket.Reply{Granted: 1, Level: u})
		s.clock.Advance(sh.MaxDrain())
		s.warm()
		s.want(op, bucket.Reply{Level: 3 * u})
	}
}

// If the clock steps while an operation is on its way, the operation is late and
// its floor is ignored. Once the store has noticed, takes are on time again.
func testClockSteps(t *testing.T, s *suite) {
	s.warm()
	op := take(shape(t, 10, time.Second, 9), "a", 1, 1)
	op.Patience = 5 * time.Millisecond
	floor := take(op.Shape, "b", 1, 1)
	floor.Floor = 5 * u
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		got := s.stalled(func() { s.clock.Step(by) }, op, floor)
		if !errors.Is(got[0].err, bucket.ErrLate) || got[0].reply.Granted != 0 {
			t.Errorf("a take while the clock steps by %v: %+v", by, got[0])
		}
		if got[1].err != nil || got[1].reply.Level > 2*u {
			t.Errorf("a floor while the clock steps by %v: %+v", by, got[1])
		}
		if r, err := Do(s.store, op); err != nil || r.Granted != 1 {
			t.Errorf("a take after the step by %v: %+v, %v", by, r, err)
		}
	}
}
