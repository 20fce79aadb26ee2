// Package storetest is the conformance suite of [bucket.Store]: what every exact store that
// nodes share must do.
package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// Clock is the clock of a store, in µs, together with the clock of its caller,
// which never steps. It is safe for concurrent use.
type Clock struct {
	mu    sync.Mutex
	now   uint64
	local time.Time
}

// NewClock starts at an ordinary date.
func NewClock() *Clock { return &Clock{now: 1_763_596_800_000_000, local: time.Now()} }

// Now returns the store's time in µs.
func (c *Clock) Now() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Local returns the caller's time.
func (c *Clock) Local() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.local
}

// Advance lets time pass.
func (c *Clock) Advance(d time.Duration) {
	c.Step(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.local = c.local.Add(d)
}

// Step sets the store's clock forwards or back, while no time passes.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = uint64(int64(c.now) + d.Microseconds())
}

// Run runs the suite. open returns a new store that reads the given clock and is
// closed when the test ends. The store must carry out one operation, or one
// batch, at a time and call Done in between, so that a Done that blocks stalls it.
func Run(t *testing.T, open func(t *testing.T, clock *Clock) bucket.Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *suite){
		"take": testTake, "partial": testPartial, "mixed costs": testMixedCosts, "peek": testPeek, "refund": testRefund,
		"reset": testReset, "floor": testFloor, "clock back": testClockBack, "rate change": testRateChange,
		"rates": testRates, "thousandths": testThousandths, "concurrent": testConcurrent, "close": testClose,
		"late take": testLateTake, "late floor": testLateFloor, "back": testBack, "quiet": testQuiet, "reset is known": testResetIsKnown,
		"clock steps under operations": testClockSteps, "unknown algorithm": testUnknownAlgorithm,
		"window": testWindow, "window refund": testWindowRefund, "window floor": testWindowFloor, "window denials": testWindowDenials,
		"window clock back": testWindowClockBack, "window and bucket": testWindowAndBucket,
		"sliding": testSliding, "sliding refund": testSlidingRefund, "sliding floor": testSlidingFloor, "sliding denials": testSlidingDenials,
		"sliding clock back": testSlidingClockBack, "sliding and others": testSlidingAndOthers, "mixed batch": testMixedBatch,
		"log": testLog, "long log": testLongLog, "log refund": testLogRefund, "log floor": testLogFloor, "log quiet": testLogQuiet,
		"log clock back": testLogClockBack, "log changes": testLogChanges, "late log and sliding": testLateLog,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := NewClock()
			test(t, &suite{t: t, clock: clock, store: open(t, clock)})
		})
	}
}

// Dated returns a store that sets a zero Op.At to the clock's local time, for
// stores that would set it to [time.Now].
func Dated(store bucket.Store, clock *Clock) bucket.Store { return dated{store, clock} }

type dated struct {
	bucket.Store

	clock *Clock
}

func (d dated) Submit(op *bucket.Op) error {
	if op.At.IsZero() {
		op.At = d.clock.Local()
	}
	return d.Store.Submit(op)
}

type suite struct {
	t     *testing.T
	clock *Clock
	store bucket.Store
}

// do carries out one operation and waits for its reply.
func (s *suite) do(op bucket.Op) bucket.Reply {
	s.t.Helper()
	r, err := Do(s.store, op)
	if err != nil {
		s.t.Fatalf("%+v: %v", op, err)
	}
	return s.timeless(r)
}

// timeless checks the time of a reply and returns the reply without it, so that replies can
// be compared.
func (s *suite) timeless(r bucket.Reply) bucket.Reply {
	s.t.Helper()
	if now := s.clock.Now(); r.Now != now {
		s.t.Errorf("carried out at %d by the reply, and at %d by the store's clock", r.Now, now)
	}
	r.Now = 0
	return r
}

// Do waits for room in the queue, submits op and waits for the outcome.
func Do(store bucket.Store, op bucket.Op) (bucket.Reply, error) {
	type outcome struct {
		r   bucket.Reply
		err error
	}
	c := make(chan outcome, 1)
	op.Done = func(_ *bucket.Op, r bucket.Reply, err error) { c <- outcome{r, err} }
	for {
		err := store.Submit(&op)
		if err == nil {
			break
		}
		if err != bucket.ErrBusy { //nolint:errorlint // Submit returns it as is
			return bucket.Reply{}, err
		}
		time.Sleep(time.Millisecond)
	}
	o := <-c
	return o.r, o.err
}

func (s *suite) want(op bucket.Op, want bucket.Reply) {
	s.t.Helper()
	if got := s.do(op); got != want {
		s.t.Errorf("%d of %d at %d: %+v, want %+v", op.Kind, op.Cost, s.clock.Now(), got, want)
	}
}

// made returns a shape, if there was no error in making it.
func made(t *testing.T) func(bucket.Shape, error) bucket.Shape {
	t.Helper()
	return func(sh bucket.Shape, err error) bucket.Shape {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return sh
	}
}

func shape(t *testing.T, n uint64, per time.Duration, burst uint64) bucket.Shape {
	t.Helper()
	return made(t)(bucket.NewShape(n, per, burst))
}

func take(sh bucket.Shape, key string, units, count uint64) bucket.Op {
	return bucket.Op{Kind: bucket.Take, Key: key, Shape: sh, Cost: sh.Cost(units), Count: count}
}

func with(op bucket.Op, kind bucket.Kind) bucket.Op {
	op.Kind = kind
	return op
}

// The tests use 10/s, so a unit is u = 100,000 ticks of 1 µs.
const u = 100_000

func testTake(t *testing.T, s *suite) {
	op := take(shape(t, 10, time.Second, 2), "a", 1, 1)
	s.want(op, bucket.Reply{Granted: 1, Level: u})
	s.want(op, bucket.Reply{Granted: 1, Level: 2 * u})
	s.want(op, bucket.Reply{Level: 2 * u})
	s.clock.Advance(100*time.Millisecond - time.Microsecond)
	s.want(op, bucket.Reply{Level: u + 1})
	s.clock.Advance(time.Microsecond)
	s.want(op, bucket.Reply{Granted: 1, Level: 2 * u})
	s.want(take(op.Shape, "b", 1, 1), bucket.Reply{Granted: 1, Level: u})
	s.clock.Advance(time.Hour)
	s.want(op, bucket.Reply{Granted: 1, Level: u})
}

func testPartial(t *testing.T, s *suite) {
	sh := shape(t, 10, time.Second, 5)
	s.want(take(sh, "a", 1, 3), bucket.Reply{Granted: 3, Level: 3 * u})
	s.want(take(sh, "a", 1, 9), bucket.Reply{Granted: 2, Level: 5 * u})
	s.want(take(sh, "a", 1, 9), bucket.Reply{Level: 5 * u})
	s.want(take(sh, "b", 2, 9), bucket.Reply{Granted: 2, Level: 4 * u})
}

func testMixedCosts(t *testing.T, s *suite) {
	sh := shape(t, 10, time.Second, 5)
	s.want(take(sh, "a", 3, 1), bucket.Reply{Granted: 1, Level: 3 * u})
	s.want(take(sh, "a", 3, 1), bucket.Reply{Level: 3 * u})
	s.want(take(sh, "a", 2, 1), bucket.Reply{Granted: 1, Level: 5 * u})
	s.want(take(sh, "b", 6, 1), bucket.Reply{}) // more than the burst
	s.want(take(sh, "b", 5, 1), bucket.Reply{Granted: 1, Level: 5 * u})
}

func testPeek(t *testing.T, s *suite) {
	op := take(shape(t, 10, time.Second, 3), "a", 1, 2)
	peek := with(op, bucket.Peek)
	s.want(peek, bucket.Reply{Granted: 2})
	s.want(peek, bucket.Reply{Granted: 2})
	s.want(op, bucket.Reply{Granted: 2, Level: 2 * u})
	s.want(peek, bucket.Reply{Granted: 1, Level: 2 * u})
	peek.Floor = 3 * u
	s.want(peek, bucket.Reply{Level: 3 * u})
	peek.Floor = 0
	s.want(peek, bucket.Reply{Granted: 1, Level: 2 * u})
}

func testRefund(t *testing.T, s *suite) {
	op := take(shape(t, 10, time.Second, 3), "a", 1, 1)
	back := with(op, bucket.Refund)
	s.want(back, bucket.Reply{})
	s.want(op, bucket.Reply{Granted: 1, Level: u})
	s.want(op, bucket.Reply{Granted: 1, Level: 2 * u})
	s.want(back, bucket.Reply{Level: u})
	s.clock.Advance(50 * time.Millisecond)
	s.want(back, bucket.Reply{})
	s.want(op, bucket.Reply{Granted: 1, Level: u})
}

func testReset(t *testing.T, s *suite) {
	op := take(shape(t, 10, time.Second, 3), "a", 1, 3)
	s.want(with(op, bucket.Reset), bucket.Reply{})
	s.want(op, bucket.Reply{Granted: 3, Level: 3 * u})
	s.want(with(op, bucket.Reset), bucket.Reply{})
	s.want(op, bucket.Reply{Granted: 3, Level: 3 * u})
}

func testFloor(t *testing.T, s *suite) {
	op := take(shape(t, 10, time.Second, 5), "a", 1, 1)
	op.Floor = 3 * u
	s.want(op, bucket.Reply{Granted: 1, Level: 4 * u}) // raised from nothing
	s.want(op, bucket.Reply{Granted: 1, Level: 5 * u}) // not added
	s.want(op, bucket.Reply{Level: 5 * u})
	op.Key, op.Floor = "b", 5*u
	s.want(op, bucket.Reply{Level: 5 * u})
	op.Floor = 0
	s.want(op, bucket.Reply{Level: 5 * u}) // a denial keeps what it has learnt
}

func testClockBack(t *testing.T, s *suite) {
	op := take(shape(t, 10, time.Second, 2), "a", 1, 1)
	s.do(op)
	s.do(op)
	s.clock.Step(-24 * time.Hour)
	s.want(op, bucket.Reply{Level: 2 * u}) // denied, and rebased:
	s.clock.Advance(100 * time.Millisecond)
	s.want(op, bucket.Reply{Granted: 1, Level: 2 * u})
	s.clock.Advance(48 * time.Hour)
	s.want(op, bucket.Reply{Granted: 1, Level: u})
}

// A level is worth the same number of units after the rate has changed.
func testRateChange(t *testing.T, s *suite) {
	s.want(take(shape(t, 10, time.Second, 5), "a", 1, 4), bucket.Reply{Granted: 4, Level: 4 * u})
	slow := shape(t, 1, time.Minute, 5) // a unit is 60·10^6 ticks
	s.want(take(slow, "a", 1, 9), bucket.Reply{Granted: 1, Level: 300_000_000})
	s.want(take(shape(t, 10, time.Second, 8), "a", 1, 9), bucket.Reply{Granted: 3, Level: 8 * u})
	s.want(take(shape(t, 10, time.Second, 2), "a", 1, 1), bucket.Reply{Level: 8 * u})
}

// Every valid rate is enforced exactly: after k periods exactly k·n more requests fit, and
// once the units of the grace.
func testRates(t *testing.T, s *suite) {
	for _, r := range []struct {
		n   uint64
		per time.Duration
	}{
		{1, 24 * time.Hour}, {3, time.Second}, {7, 15 * time.Minute}, {300_000, time.Second}, {bucket.MaxRate, time.Second},
	} {
		sh := shape(t, r.n, r.per, 2*r.n)
		op := take(sh, fmt.Sprintf("%d per %v", r.n, r.per), 1, 5*r.n)
		granted := s.do(op).Granted
		for range 3 {
			s.clock.Advance(r.per)
			granted += s.do(op).Granted
		}
		if want := 5*r.n + sh.Grace()/sh.Unit(); granted != want {
			t.Errorf("%s: %d granted in 3 periods from a bucket of 2, want %d", op.Key, granted, want)
		}
	}
}
