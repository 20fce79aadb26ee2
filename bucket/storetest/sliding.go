package storetest

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// Sliding windows, of n units in a minute each.

func sliding(t *testing.T, n uint64, per time.Duration) bucket.Shape {
	t.Helper()
	return made(t)(bucket.NewSlidingWindow(n, per))
}

// counted returns a reply with both counts.
func counted(granted, previous, current uint64) bucket.Reply {
	return bucket.Reply{Granted: granted, Level: bucket.Pack(previous, current)}
}

func testSliding(t *testing.T, s *suite) {
	if !s.store.Runs(bucket.SlidingWindow) {
		t.Fatal("Runs: want the sliding window")
	}
	s.begin()
	op := count(sliding(t, 10, time.Minute), "a", 1, 1)
	s.want(op, counted(1, 0, 1))
	s.want(count(op.Shape, "a", 4, 9), counted(2, 0, 9)) // 12 would be too many
	s.want(op, counted(1, 0, 10))
	s.want(op, counted(0, 0, 10))
	s.clock.Advance(time.Minute - time.Microsecond)
	s.want(op, counted(0, 0, 10)) // nothing has drained
	s.clock.Advance(time.Microsecond)
	s.want(op, counted(0, 10, 0)) // not twice as much at the edge
	// A tenth fits after a tenth of the minute, and not a step before.
	s.clock.Advance(6*time.Second - time.Microsecond)
	s.want(with(op, bucket.Peek), counted(0, 10, 0))
	s.clock.Advance(time.Microsecond)
	s.want(count(op.Shape, "a", 1, 9), counted(1, 10, 1))
	s.clock.Advance(24 * time.Second) // half of the window
	s.want(count(op.Shape, "a", 1, 9), counted(4, 10, 5))
	s.clock.Advance(29*time.Second + 999_999*time.Microsecond)
	s.want(with(op, bucket.Peek), counted(1, 10, 5)) // the least weight counts as one
	s.want(count(op.Shape, "a", 1, 9), counted(4, 10, 9))
	s.clock.Advance(time.Microsecond)
	s.want(op, counted(1, 9, 1))
	s.clock.Advance(2 * time.Minute)
	s.want(with(op, bucket.Peek), counted(1, 0, 0))
	s.want(count(op.Shape, "b", 11, 1), counted(0, 0, 0))
	// The limit is not in the state, and a larger one has room for more.
	s.want(count(op.Shape, "a", 9, 1), counted(1, 0, 9))
	s.want(count(sliding(t, 12, time.Minute), "a", 1, 9), counted(3, 0, 12))
	s.want(with(count(op.Shape, "a", 0, 3), bucket.Peek), counted(0, 0, 12))
}

func testSlidingRefund(t *testing.T, s *suite) {
	now := s.begin()
	op := count(sliding(t, 8, time.Minute), "a", 1, 8)
	s.want(op, counted(8, 0, 8))
	back := with(count(op.Shape, "a", 2, 1), bucket.Refund)
	back.Window = now + 1
	s.want(back, counted(0, 0, 8)) // of a future window
	back.Window = now
	s.want(back, counted(0, 0, 6))
	op.Back, op.Window, op.Count = 1, now, 1
	s.want(op, counted(1, 0, 6))
	s.clock.Advance(90 * time.Second)
	s.want(count(op.Shape, "a", 1, 3), counted(3, 6, 3))
	s.want(back, counted(0, 4, 3)) // off the previous window
	back.Window = 0
	back.Cost = 5
	s.want(back, counted(0, 2, 0)) // off this one, and the rest off the previous one
	back.Window = now - 1
	s.want(back, counted(0, 2, 0)) // of the window before the previous one
	s.want(with(op, bucket.Reset), counted(0, 0, 0))
	s.want(count(op.Shape, "a", 8, 1), counted(1, 0, 8))
}

func testSlidingFloor(t *testing.T, s *suite) {
	now := s.begin()
	op := count(sliding(t, 20, time.Minute), "a", 1, 1)
	op.Floor, op.Window = bucket.Pack(9, 3), now-2
	s.want(op, counted(1, 0, 1)) // the current units are two windows ago
	op.Window = now + 1
	s.want(op, counted(1, 0, 2))
	op.Window = now - 1
	s.want(op, counted(1, 1, 3)) // the current units are now previous, and two of them may be the others
	op.Window = now
	s.want(op, counted(1, 9, 4)) // raised, not added
	s.want(op, counted(1, 9, 5))
	op.Floor = bucket.Pack(8, 6)
	s.want(op, counted(1, 8, 7)) // as many units as before, each of which counts once
	op.Floor, op.Window = bucket.Pack(0, 16), now-1
	s.want(op, counted(1, 9, 8))
	op.Floor, op.Window = bucket.Pack(9, 3), now
	s.want(with(op, bucket.Reset), counted(0, 0, 0))
	s.want(op, counted(1, 0, 1)) // a floor from before the reset, which counts
	s.clock.Advance(time.Minute)
	op.Window = now + 1
	s.want(op, counted(1, 1, 1)) // nor in the next window
	s.clock.Advance(time.Minute)
	op.Window = now + 2
	s.want(op, counted(1, 9, 4)) // but in the one after that
	// The floor of an operation that gives units back takes them into account.
	op.Back = 4
	s.want(op, counted(1, 9, 4))
	op.Back, op.Floor = 0, bucket.Pack(9, 9)
	s.want(op, counted(1, 9, 5))
}

func testSlidingDenials(t *testing.T, s *suite) {
	now := s.begin()
	op := count(sliding(t, 9, time.Minute), "a", 3, 1)
	op.CountDenied = true
	op.Count = 2
	s.want(op, counted(2, 0, 6))
	s.want(with(count(op.Shape, "a", 4, 1), bucket.Peek), counted(0, 0, 6))
	big := op
	big.Cost, big.Count = 4, 1
	s.want(big, counted(0, 0, 9)) // no more than the limit
	s.want(big, counted(0, 0, 9))
	big.Back, big.Window = 8, now
	s.want(big, counted(1, 0, 5))
	s.clock.Advance(time.Minute)
	big.Back = 0
	s.want(big, counted(1, 5, 4))
	s.want(big, counted(0, 5, 8)) // it counts with its cost
	s.want(big, counted(0, 5, 9))
}

func testSlidingClockBack(t *testing.T, s *suite) {
	s.begin()
	op := count(sliding(t, 4, time.Minute), "a", 1, 4)
	s.want(op, counted(4, 0, 4))
	s.clock.Advance(90 * time.Second)
	s.want(op, counted(2, 4, 2))
	s.clock.Step(-24 * time.Hour)
	s.want(op, counted(0, 4, 2)) // no time has passed, and
	s.clock.Advance(time.Minute)
	s.want(op, counted(3, 2, 3)) // it passes from here on
}

// A state that another algorithm wrote, or one of another period, counts as empty.
func testSlidingAndOthers(t *testing.T, s *suite) {
	s.begin()
	op := count(sliding(t, 3, time.Minute), "a", 1, 9)
	for range 2 {
		s.want(op, counted(3, 0, 3))
		s.want(count(sliding(t, 4, time.Hour), "a", 1, 9), counted(4, 0, 4))
		s.want(op, counted(3, 0, 3))
		s.want(take(shape(t, 10, time.Second, 2), "a", 1, 9), bucket.Reply{Granted: 2, Level: 2 * u})
		s.want(op, counted(3, 0, 3))
		s.want(count(window(t, 5), "a", 1, 9), bucket.Reply{Granted: 5, Level: 5})
		s.want(op, counted(3, 0, 3))
		s.want(count(logged(t, 6, time.Minute), "a", 2, 2), bucket.Reply{Granted: 2, Level: 4})
	}
}

// Operations that wait together keep their order, each sees the one before, and they may be
// of different algorithms.
func testMixedBatch(t *testing.T, s *suite) {
	s.begin()
	slide, list := count(sliding(t, 5, time.Minute), "a", 2, 1), count(logged(t, 5, time.Minute), "b", 2, 1)
	got := s.stalled(func() {},
		slide, list, take(shape(t, 10, time.Second, 2), "c", 1, 1), count(window(t, 5), "d", 3, 1),
		slide, list, with(slide, bucket.Refund), with(list, bucket.Refund), with(list, bucket.Peek),
		slide, list, slide, with(slide, bucket.Reset), with(list, bucket.Reset), slide, list)
	for i, want := range []bucket.Reply{
		counted(1, 0, 2),
		{Granted: 1, Level: 2},
		{Granted: 1, Level: u},
		{Granted: 1, Level: 3},
		counted(1, 0, 4),
		{Granted: 1, Level: 4},
		counted(0, 0, 2),
		{Level: 2},
		{Granted: 1, Level: 2},
		counted(1, 0, 4),
		{Granted: 1, Level: 4},
		counted(0, 0, 4), counted(0, 0, 0),
		{},
		counted(1, 0, 2),
		{Granted: 1, Level: 2},
	} {
		if got[i].err != nil || got[i].reply != want {
			t.Errorf("operation %d: %+v, want %+v", i, got[i], want)
		}
	}
}
