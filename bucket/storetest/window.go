package storetest

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// Fixed windows, of n units in a minute each.

func window(t *testing.T, n uint64) bucket.Shape {
	t.Helper()
	return made(t)(bucket.NewWindow(n, time.Minute))
}

func count(sh bucket.Shape, key string, units, requests uint64) bucket.Op {
	op := take(sh, key, units, requests)
	op.Algorithm = sh.Algorithm()
	return op
}

// begin waits for the start of a window and returns its number.
func (s *suite) begin() uint64 {
	minute := uint64(time.Minute / time.Microsecond)
	s.clock.Advance(time.Duration(minute-s.clock.Now()%minute) * time.Microsecond)
	return s.clock.Now() / minute
}

func testWindow(t *testing.T, s *suite) {
	if !s.store.Runs(bucket.FixedWindow) {
		t.Fatal("Runs: want the fixed window")
	}
	s.begin()
	op := count(window(t, 3), "a", 1, 1)
	s.want(op, bucket.Reply{Granted: 1, Level: 1})
	s.want(count(op.Shape, "a", 2, 9), bucket.Reply{Granted: 1, Level: 3})
	s.want(op, bucket.Reply{Level: 3})
	s.clock.Advance(time.Minute - time.Microsecond)
	s.want(op, bucket.Reply{Level: 3}) // nothing has leaked
	s.clock.Advance(time.Microsecond)
	s.want(count(op.Shape, "a", 1, 9), bucket.Reply{Granted: 3, Level: 3}) // the next one begins at Unix time
	s.want(count(op.Shape, "b", 4, 1), bucket.Reply{})
	s.want(with(op, bucket.Peek), bucket.Reply{Level: 3})
	s.clock.Advance(2 * time.Minute)
	s.want(with(op, bucket.Peek), bucket.Reply{Granted: 1})
	// The limit is not in the state, and a larger one has room for more.
	s.want(count(op.Shape, "a", 3, 1), bucket.Reply{Granted: 1, Level: 3})
	s.want(count(window(t, 5), "a", 1, 9), bucket.Reply{Granted: 2, Level: 5})
	s.want(op, bucket.Reply{Level: 5})
}

func testWindowRefund(t *testing.T, s *suite) {
	now := s.begin()
	op := count(window(t, 3), "a", 1, 3)
	s.want(op, bucket.Reply{Granted: 3, Level: 3})
	back := with(count(op.Shape, "a", 2, 1), bucket.Refund)
	back.Window = now - 1
	s.want(back, bucket.Reply{Level: 3}) // of the previous window
	back.Window = now
	s.want(back, bucket.Reply{Level: 1})
	op.Back, op.Window = 1, now
	s.want(op, bucket.Reply{Granted: 3, Level: 3})
	s.clock.Advance(time.Minute)
	s.want(count(op.Shape, "a", 1, 1), bucket.Reply{Granted: 1, Level: 1})
	s.want(op, bucket.Reply{Granted: 2, Level: 3}) // the units given back are from a minute ago
	s.want(with(op, bucket.Reset), bucket.Reply{})
	s.want(count(op.Shape, "a", 3, 1), bucket.Reply{Granted: 1, Level: 3})
}

func testWindowFloor(t *testing.T, s *suite) {
	now := s.begin()
	op := count(window(t, 5), "a", 1, 1)
	op.Floor, op.Window = 3, now-1
	s.want(op, bucket.Reply{Granted: 1, Level: 1})
	op.Window = now + 1
	s.want(op, bucket.Reply{Granted: 1, Level: 2})
	op.Window = now
	s.want(op, bucket.Reply{Granted: 1, Level: 4}) // raised, not added
	s.want(with(op, bucket.Reset), bucket.Reply{})
	s.want(op, bucket.Reply{Granted: 1, Level: 1}) // a floor from before the reset
}

func testWindowDenials(t *testing.T, s *suite) {
	now := s.begin()
	op := count(window(t, 5), "a", 3, 1)
	op.CountDenied = true
	s.want(op, bucket.Reply{Granted: 1, Level: 3})
	s.want(with(op, bucket.Peek), bucket.Reply{Level: 3})
	s.want(op, bucket.Reply{Level: 5})
	s.want(count(op.Shape, "a", 1, 1), bucket.Reply{Level: 5})
	op.Back, op.Window = 4, now
	s.want(op, bucket.Reply{Granted: 1, Level: 4})
}

func testWindowClockBack(t *testing.T, s *suite) {
	s.begin()
	op := count(window(t, 3), "a", 1, 2)
	s.want(op, bucket.Reply{Granted: 2, Level: 2})
	s.clock.Step(-24 * time.Hour)
	s.want(op, bucket.Reply{Granted: 1, Level: 3}) // no time has passed, and
	s.clock.Advance(time.Minute)
	s.want(op, bucket.Reply{Granted: 2, Level: 2}) // it passes from here on
}

// A state that another algorithm wrote, or one of another period, counts as empty.
func testWindowAndBucket(t *testing.T, s *suite) {
	s.begin()
	bucketOp, windowOp := take(shape(t, 10, time.Second, 2), "a", 1, 9), count(window(t, 3), "a", 1, 9)
	for range 2 {
		s.want(bucketOp, bucket.Reply{Granted: 2, Level: 2 * u})
		s.want(windowOp, bucket.Reply{Granted: 3, Level: 3})
	}
	hour := made(t)(bucket.NewWindow(4, time.Hour))
	s.want(count(hour, "a", 1, 9), bucket.Reply{Granted: 4, Level: 4})
	s.want(windowOp, bucket.Reply{Granted: 3, Level: 3})
}
