package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// Sliding logs, of n units in any minute each.

func logged(t *testing.T, n uint64, per time.Duration) bucket.Shape {
	t.Helper()
	return made(t)(bucket.NewSlidingLog(n, per))
}

// minute is in the µs of a full log's level.
const minute = uint64(time.Minute / time.Microsecond)

func testLog(t *testing.T, s *suite) {
	if !s.store.Runs(bucket.SlidingLog) {
		t.Fatal("Runs: want the sliding log")
	}
	op := count(logged(t, 4, time.Minute), "a", 1, 1)
	s.want(op, bucket.Reply{Granted: 1, Level: 1})
	s.clock.Advance(20 * time.Second)
	s.want(count(op.Shape, "a", 2, 9), bucket.Reply{Granted: 1, Level: 3}) // 5 would be too many
	s.want(op, bucket.Reply{Granted: 1, Level: 4 + 40_000_000})            // full, and for how long
	s.clock.Advance(40*time.Second - time.Microsecond)
	s.want(op, bucket.Reply{Level: 4 + 1})
	s.clock.Advance(time.Microsecond)
	s.want(count(op.Shape, "a", 1, 9), bucket.Reply{Granted: 1, Level: 4 + 20_000_000})
	s.want(with(op, bucket.Peek), bucket.Reply{Level: 4 + 20_000_000})
	s.clock.Advance(20 * time.Second)
	s.want(with(op, bucket.Peek), bucket.Reply{Granted: 1, Level: 1})
	s.want(count(op.Shape, "a", 1, 9), bucket.Reply{Granted: 3, Level: 4 + 40_000_000})
	s.want(count(op.Shape, "a", 0, 3), bucket.Reply{Granted: 3, Level: 4 + 40_000_000}) // a cost of 0 fits
	s.clock.Advance(time.Hour)
	s.want(with(op, bucket.Peek), bucket.Reply{Granted: 1})
	s.want(count(op.Shape, "b", 5, 1), bucket.Reply{})
	s.want(count(op.Shape, "b", 4, 1), bucket.Reply{Granted: 1, Level: 4 + minute})
}

// The longest log that a store has to run.
func testLongLog(t *testing.T, s *suite) {
	const n = bucket.MaxPortableLog
	sh := logged(t, n, time.Minute)
	for i := range uint64(16) {
		s.want(count(sh, "a", 1, n/16-1), bucket.Reply{Granted: n/16 - 1, Level: (i + 1) * (n/16 - 1)})
		s.clock.Advance(time.Second)
	}
	s.want(count(sh, "a", 1, n), bucket.Reply{Granted: 16, Level: n + minute - 16_000_000})
	s.clock.Advance(45 * time.Second) // two sixteenths are over
	s.want(count(sh, "a", 1, n), bucket.Reply{Granted: 2 * (n/16 - 1), Level: n + 1_000_000})
	for range 100 {
		s.clock.Advance(time.Second)
		s.do(count(sh, "a", 3, n))
	}
	s.clock.Advance(time.Minute)
	s.want(with(count(sh, "a", 1, 1), bucket.Peek), bucket.Reply{Granted: 1})
}

func testLogRefund(t *testing.T, s *suite) {
	op := count(logged(t, 4, time.Minute), "a", 1, 2)
	s.want(with(op, bucket.Refund), bucket.Reply{})
	s.want(op, bucket.Reply{Granted: 2, Level: 2})
	s.clock.Advance(30 * time.Second)
	s.want(op, bucket.Reply{Granted: 2, Level: 4 + minute/2})
	s.want(with(op, bucket.Refund), bucket.Reply{Level: 3}) // the latest one
	op.Back = 2
	s.want(op, bucket.Reply{Granted: 2, Level: 3})
	s.clock.Advance(30 * time.Second)
	op.Back = 0
	s.want(with(op, bucket.Peek), bucket.Reply{Granted: 2, Level: 2}) // the rest is from 30 s ago
	s.want(with(count(op.Shape, "a", 9, 1), bucket.Refund), bucket.Reply{})
	s.want(op, bucket.Reply{Granted: 2, Level: 2})
	s.want(with(op, bucket.Reset), bucket.Reply{})
	s.want(count(op.Shape, "a", 4, 1), bucket.Reply{Granted: 1, Level: 4 + minute})
}

// A floor is units of the half period before it was known, and counts as of its start.
func testLogFloor(t *testing.T, s *suite) {
	s.warm()
	op := count(logged(t, 6, time.Minute), "a", 1, 1)
	op.Floor = 3
	level := func(want uint64) { // a date is a lower bound
		t.Helper()
		if got := s.do(op); got.Granted != 1 || got.Level != want {
			t.Errorf("%+v, want 1 and a level of %d", got, want)
		}
	}
	level(4)
	level(5) // raised, not added
	op.Floor = 0
	op.Kind = bucket.Peek
	s.clock.Advance(30*time.Second - 10*time.Millisecond)
	level(5)
	s.clock.Advance(10 * time.Millisecond)
	level(2) // two of them are from the half period before now
	s.clock.Advance(30 * time.Second)
	level(0)
	// It is joined by maximum with units from before, floors among them.
	op.Kind, op.Key, op.Floor = bucket.Take, "again", 3
	level(4)
	s.clock.Advance(10 * time.Second)
	s.warm()
	op.Floor = 4
	level(5)
	// It is as old as the operation.
	for name, tt := range map[string]struct {
		late time.Duration
		want uint64
	}{"at once": {0, 4}, "a quarter late": {15 * time.Second, 4}, "half a period late": {30 * time.Second, 1}, "an hour late": {time.Hour, 1}} {
		s.warm()
		op.Key, op.Floor = name, 3
		got := s.stalled(func() { s.clock.Advance(tt.late) }, op)
		if got[0].err != nil || got[0].reply.Level != tt.want {
			t.Errorf("%s: %+v, want a level of %d", name, got[0], tt.want)
		}
	}
}

// After a refund or a reset floors are ignored for two periods.
func testLogQuiet(t *testing.T, s *suite) {
	s.warm()
	op := count(logged(t, 6, time.Minute), "a", 1, 1)
	s.want(op, bucket.Reply{Granted: 1, Level: 1})
	op.Floor, op.Back = 3, 1
	s.want(op, bucket.Reply{Granted: 1, Level: 4}) // which the refund took into account
	op.Floor, op.Back = 5, 0
	s.want(op, bucket.Reply{Granted: 1, Level: 5})
	s.want(with(op, bucket.Reset), bucket.Reply{})
	s.want(op, bucket.Reply{Granted: 1, Level: 1})
	s.clock.Advance(2*time.Minute - time.Microsecond)
	s.warm()
	s.want(op, bucket.Reply{Granted: 1, Level: 1})
	s.clock.Advance(time.Microsecond)
	s.warm()
	s.want(op, bucket.Reply{Granted: 1, Level: 6 + minute/2}) // counts again
}

func testLogClockBack(t *testing.T, s *suite) {
	op := count(logged(t, 3, time.Minute), "a", 1, 1)
	s.want(op, bucket.Reply{Granted: 1, Level: 1})
	s.clock.Advance(20 * time.Second)
	s.want(op, bucket.Reply{Granted: 1, Level: 2})
	s.clock.Step(-24 * time.Hour)
	s.want(op, bucket.Reply{Granted: 1, Level: 3 + 40_000_000}) // no time has passed, and
	s.clock.Advance(40 * time.Second)
	s.want(op, bucket.Reply{Granted: 1, Level: 3 + 20_000_000}) // it passes from here on
	s.clock.Step(-time.Second)
	s.want(op, bucket.Reply{Level: 3 + 20_000_000}) // denied, and yet
	s.clock.Advance(20 * time.Second)
	s.want(with(count(op.Shape, "a", 1, 9), bucket.Peek), bucket.Reply{Granted: 2, Level: 1})
}

// A log stays the same under another period or limit, and is empty under another algorithm.
func testLogChanges(t *testing.T, s *suite) {
	op := count(logged(t, 4, time.Minute), "a", 1, 9)
	s.want(op, bucket.Reply{Granted: 4, Level: 4 + minute})
	s.clock.Advance(10 * time.Second)
	s.want(count(logged(t, 4, time.Hour), "a", 1, 9), bucket.Reply{Level: 4 + 60*minute - 10_000_000})
	s.want(count(logged(t, 6, time.Minute), "a", 1, 1), bucket.Reply{Granted: 1, Level: 5})
	s.want(count(logged(t, 2, time.Minute), "a", 1, 1), bucket.Reply{Level: 2 + minute - 10_000_000})
	s.want(count(logged(t, 4, time.Second), "a", 1, 1), bucket.Reply{Granted: 1, Level: 2})
	for range 2 {
		s.want(take(shape(t, 10, time.Second, 2), "b", 1, 9), bucket.Reply{Granted: 2, Level: 2 * u})
		s.want(count(op.Shape, "b", 3, 1), bucket.Reply{Granted: 1, Level: 3})
		s.want(count(window(t, 5), "b", 1, 9), bucket.Reply{Granted: 5, Level: 5})
		s.want(count(op.Shape, "b", 2, 1), bucket.Reply{Granted: 1, Level: 2})
		s.want(count(sliding(t, 5, time.Minute), "b", 1, 9), counted(5, 0, 5))
		s.want(count(op.Shape, "b", 1, 1), bucket.Reply{Granted: 1, Level: 1})
	}
}

// Late operations change nothing with these algorithms either.
func testLateLog(t *testing.T, s *suite) {
	s.warm()
	for _, sh := range []bucket.Shape{logged(t, 4, time.Minute), sliding(t, 4, time.Minute)} {
		op := count(sh, sh.Algorithm().String(), 1, 2)
		op.Patience = 5 * time.Millisecond
		late := s.stalled(func() { s.clock.Advance(6 * time.Millisecond) }, op, with(op, bucket.Refund))
		if !errors.Is(late[0].err, bucket.ErrLate) || !errors.Is(late[1].err, bucket.ErrLate) {
			t.Errorf("6 ms late of 5: %+v", late)
		}
		op.Patience = 0
		s.want(with(op, bucket.Peek), bucket.Reply{Granted: 2})
	}
}
