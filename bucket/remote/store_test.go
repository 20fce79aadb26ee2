package remote

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/storetest"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.ExitCode(m.Run())) }

// logs is a log that tests read.
type logs struct{ testkit.Log }

func (l *logs) count(s string) int { return l.Count(s) }

func testConfig(l *logs) Config {
	return Config{
		Name: "memory", Target: "here", Classes: allClasses, Timeout: 10 * time.Millisecond, Workers: 1, Queue: 10,
		RetryMin: 100 * time.Millisecond, RetryMax: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(l, nil)),
	}
}

// start starts a store that is closed when the test ends. Call it in a synctest
// bubble.
func start(t *testing.T, m *memory, c Config) *Store {
	t.Helper()
	s := Start(t.Context(), m, c, nil)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// pass lets fake time pass, and all that happens in it be seen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// outcomes counts calls of Done. Read it after synctest.Wait.
type outcomes struct {
	mu     sync.Mutex
	called int
	errs   []error
}

func (o *outcomes) done(_ *bucket.Op, _ bucket.Reply, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.called++
	if err != nil {
		o.errs = append(o.errs, err)
	}
}

func (o *outcomes) take(t *testing.T) *bucket.Op {
	t.Helper()
	shape, err := bucket.NewShape(10, time.Second, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return &bucket.Op{Kind: bucket.Take, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 1, Done: o.done}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) bucket.Store {
		m := newMemory()
		m.clock, m.local = clock.Now, clock.Local
		c := testConfig(new(logs))
		c.Timeout, c.Queue = time.Minute, 1024
		s := Start(t.Context(), m, c, nil)
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		return storetest.Dated(s, clock)
	})
}

// One batch is in flight and ten operations wait: the next is refused.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.exec = func([]*bucket.Op) error { time.Sleep(time.Second); return nil }
		c := testConfig(new(logs))
		c.Timeout = time.Minute
		s := start(t, m, c)
		var o outcomes
		if err := s.Submit(o.take(t)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // for the worker to wait for the store
		for range 10 {
			if err := s.Submit(o.take(t)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Submit(o.take(t)); !errors.Is(err, bucket.ErrBusy) {
			t.Errorf("the 11th that waits: %v, want ErrBusy", err)
		}
		if st := s.Stats(); st.Busy != 1 || st.Queue != 10 || st.QueueCap != 10 || st.Takes != 11 {
			t.Errorf("%+v", st)
		}
		pass(3 * time.Second)
		if o.called != 11 || len(o.errs) != 0 || s.Stats().Queue != 0 {
			t.Errorf("%d of 11 done, %v", o.called, o.errs)
		}
	})
}

// While a batch is in flight the next gathers, up to MaxBatch.
func TestBatchesGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var sizes []int
		m.exec = func(ops []*bucket.Op) error {
			sizes = append(sizes, len(ops))
			time.Sleep(time.Millisecond)
			return nil
		}
		c := testConfig(new(logs))
		c.Queue = 1000
		s := start(t, m, c)
		var o outcomes
		if err := s.Submit(o.take(t)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for range 2*MaxBatch + 44 {
			if err := s.Submit(o.take(t)); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Second)
		if want := []int{1, MaxBatch, MaxBatch, 44}; !slices.Equal(sizes, want) || o.called != 2*MaxBatch+45 {
			t.Errorf("batches of %v, want %v; %d done", sizes, want, o.called)
		}
		st := s.Stats()
		if st.Pipelines != 4 || st.RoundTripSum != 4*time.Millisecond || st.RoundTrips[2] != 4 {
			t.Errorf("%d batches counted, %v in %v", st.Pipelines, st.RoundTripSum, st.RoundTrips)
		}
	})
}

// Close waits for the batch in flight, fails what is queued when its context
// ends, and closes the driver.
func TestCloseGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.exec = func([]*bucket.Op) error { time.Sleep(500 * time.Millisecond); return nil }
		s := start(t, m, testConfig(new(logs)))
		var o outcomes
		for range 5 {
			if err := s.Submit(o.take(t)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v, want deadline exceeded", err)
		}
		if took := time.Since(begin); took != 500*time.Millisecond || !m.closed {
			t.Errorf("Close took %v, driver closed: %t", took, m.closed)
		}
		if o.called != 5 || len(o.errs) != 4 || !errors.Is(o.errs[0], bucket.ErrAway) {
			t.Errorf("%d of 5 done, errors %v; want 4 away", o.called, o.errs)
		}
		if n := s.Stats().Away; n != 4 {
			t.Errorf("%d operations counted as away, want 4", n)
		}
	})
}

// Whose age matters is dated when it is submitted, if its caller has not done so.
func TestSubmitDates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, newMemory(), testConfig(new(logs)))
		begin := time.Now()
		pass(time.Second)
		for name, tt := range map[string]struct {
			change func(*bucket.Op)
			want   time.Time
		}{
			"floor":    {func(op *bucket.Op) { op.Floor = 1 }, begin.Add(time.Second)},
			"patience": {func(op *bucket.Op) { op.Patience = time.Hour }, begin.Add(time.Second)},
			"dated":    {func(op *bucket.Op) { op.Floor, op.At = 1, begin }, begin},
			"ageless":  {func(*bucket.Op) {}, time.Time{}},
		} {
			op := new(outcomes).take(t)
			tt.change(op)
			if err := s.Submit(op); err != nil || !op.At.Equal(tt.want) {
				t.Errorf("%s: %v, at %v, want %v", name, err, op.At, tt.want)
			}
			synctest.Wait()
		}
	})
}

func TestStatsCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := start(t, m, testConfig(new(logs)))
		var o outcomes
		for kind := range bucket.NumKinds {
			for range kind + 1 {
				op := o.take(t)
				op.Kind = kind
				if err := s.Submit(op); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
		}
		unknown := o.take(t)
		unknown.Algorithm = 255
		if err := s.Submit(unknown); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st := s.Stats()
		if st.Takes != 2 || st.Peeks != 2 || st.Refunds != 3 || st.Resets != 4 || st.Pipelines != 11 || st.RoundTrips[0] != 11 {
			t.Errorf("%+v", st)
		}
		if len(st.Errors) != len(allClasses) || st.Errors["other"] != 1 || st.State != "closed" || o.called != 11 {
			t.Errorf("errors %v, %s, %d done", st.Errors, st.State, o.called)
		}
	})
}

// A driver that forgets an operation would leave its caller without an outcome.
func TestForgottenOperation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, newMemory(), testConfig(new(logs)))
		s.driver = forgetful{s.driver}
		var o outcomes
		defer func() {
			if r, _ := recover().(string); !strings.Contains(r, "settled 1 of 2 operations") {
				t.Errorf("recovered %q, want a panic that counts", r)
			}
		}()
		run(s, o.take(t), o.take(t))
	})
}

type forgetful struct{ Driver }

func (f forgetful) Exec(ctx context.Context, ops []*bucket.Op, settle Settle) {
	f.Driver.Exec(ctx, ops[1:], settle)
}

func TestError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err        *Error
		text       string
		away, late bool
	}{
		{&Error{Package: "p", Class: classGone, Err: errGone, Fix: "start it"}, "p: gone: gone: start it", true, false},
		{&Error{Package: "p", Class: classLate, Err: errGone}, "p: late: gone", true, true},
		{&Error{Package: "p", Class: classRight, Err: errGone}, "p: rights: gone", false, false},
		{&Error{Package: "p", Class: classOther, Err: errGone}, "p: other: gone", false, false},
	} {
		if got := tt.err.Error(); got != tt.text || !errors.Is(tt.err, errGone) {
			t.Errorf("%q, want %q", got, tt.text)
		}
		if errors.Is(tt.err, bucket.ErrAway) != tt.away || errors.Is(tt.err, bucket.ErrLate) != tt.late {
			t.Errorf("%v: want away %t, late %t", tt.err, tt.away, tt.late)
		}
	}
	if got := (*Class)(nil).String(); got != "none" {
		t.Errorf("no class: %q", got)
	}
}
